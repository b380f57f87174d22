//! Sets of actors: those that run the methods of a lane's program. They are the actors of a borrowed thread, or the inline
//! actors that run on the thread that drives the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_core::{ActorCell, ActorId, Compute, Failure, Frame, Guarded, LaneHost, NoEntry};

/// The actors of one lane.
pub(crate) trait ActorSet {
    /// Runs one method of one actor. `seat` is the position at which the actor was last found; the search begins there.
    fn compute(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: Compute,
        frame: &mut Frame<'_>,
    ) -> Result<(), Box<Failure>>;

    /// Whether an ordinary call waits for the actors, or may wait for them unseen.
    fn is_called(&self) -> bool;
}

#[cold]
fn unknown(actor: ActorId) -> Box<Failure> {
    let text = format!("actor {} does not live on this lane", actor.0);
    Box::new(Failure::Internal(text))
}

impl ActorSet for LaneHost<'_> {
    // Always: a call costs as much as what it does, and there are three callers.
    #[inline(always)]
    fn compute(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: Compute,
        frame: &mut Frame<'_>,
    ) -> Result<(), Box<Failure>> {
        let cell = self.actor_at(seat, actor).ok_or_else(|| unknown(actor))?;
        cell.compute(compute, frame)
    }

    #[inline]
    fn is_called(&self) -> bool {
        self.mailbox_pending()
    }
}

/// The actors that run on the thread that drives the graph.
pub(crate) struct Inline {
    /// The actors, sorted by id.
    actors: Vec<(ActorId, Arc<Guarded<ActorCell>>)>,
    /// The time limit for waiting while an ordinary call keeps an actor busy.
    patience: Option<Duration>,
}

impl Inline {
    pub(crate) fn new(
        mut actors: Vec<(ActorId, Arc<Guarded<ActorCell>>)>,
        patience: Option<Duration>,
    ) -> Self {
        actors.sort_unstable_by_key(|(id, _)| *id);
        Inline { actors, patience }
    }

    fn busy(&self, refused: NoEntry) -> Failure {
        Failure::Busy(match (refused, self.patience) {
            (NoEntry::OutOfTime, Some(patience)) => {
                format!("the inline actor was busy with an ordinary call for {patience:?}")
            }
            _ => "the inline actor was used by its own method; give it a thread".to_owned(),
        })
    }

    /// Runs `work` on an actor; waits while an ordinary call keeps the actor busy.
    fn with(
        &self,
        seat: &mut usize,
        actor: ActorId,
        work: impl FnOnce(&mut ActorCell) -> Result<(), Box<Failure>>,
    ) -> Result<(), Box<Failure>> {
        if self.actors.get(*seat).is_none_or(|(id, _)| *id != actor) {
            let place = self.actors.binary_search_by_key(&actor, |(id, _)| *id);
            *seat = place.map_err(|_| unknown(actor))?;
        }
        let (_, cell) = self.actors.get(*seat).ok_or_else(|| unknown(actor))?;
        let deadline = || {
            self.patience
                .and_then(|patience| Instant::now().checked_add(patience))
        };
        cell.with(deadline, work)
            .unwrap_or_else(|refused| Err(Box::new(self.busy(refused))))
    }
}

impl ActorSet for Inline {
    fn compute(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: Compute,
        frame: &mut Frame<'_>,
    ) -> Result<(), Box<Failure>> {
        self.with(seat, actor, |cell| cell.compute(compute, frame))
    }

    fn is_called(&self) -> bool {
        true
    }
}
