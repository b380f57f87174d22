//! Whom a lane's program asks to run a method: the actors of a borrowed thread, or the inline actors that the
//! driver's own thread runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_core::{ActorCell, ActorId, ComputeHop, Failure, Guarded, Hop, Invocation, LaneHost, NoEntry};

/// The actors of one lane.
pub(crate) trait Crew {
    /// Runs one method of one actor. `seat` is where it was found last, and is looked at first.
    fn invoke(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        method: u16,
        invocation: &mut Invocation<'_>,
    ) -> Result<(), Box<Failure>>;

    /// The same for a task that is no more than a hop.
    fn hop(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: ComputeHop,
        hop: &mut Hop<'_>,
    ) -> Result<(), Box<Failure>>;

    /// Whether somebody wants the actors for something else, or may do so unseen.
    fn is_called(&self) -> bool;
}

#[cold]
fn unknown(actor: ActorId) -> Box<Failure> {
    let text = format!("actor {} does not live on this lane", actor.0);
    Box::new(Failure::Internal(text))
}

#[inline]
fn cell<'a>(
    lane: &'a mut LaneHost<'_>,
    seat: &mut usize,
    actor: ActorId,
) -> Result<&'a mut ActorCell, Box<Failure>> {
    lane.actor_at(seat, actor).ok_or_else(|| unknown(actor))
}

impl Crew for LaneHost<'_> {
    #[inline]
    fn invoke(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        method: u16,
        invocation: &mut Invocation<'_>,
    ) -> Result<(), Box<Failure>> {
        cell(self, seat, actor)?.invoke(method, invocation)
    }

    #[inline]
    fn hop(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: ComputeHop,
        hop: &mut Hop<'_>,
    ) -> Result<(), Box<Failure>> {
        cell(self, seat, actor)?.hop(compute, hop)
    }

    #[inline]
    fn is_called(&self) -> bool {
        self.mailbox_pending()
    }
}

/// The actors that run on whichever thread drives the graph.
pub(crate) struct Inline {
    /// Sorted by id.
    actors: Vec<(ActorId, Arc<Guarded<ActorCell>>)>,
    /// How long an ordinary call from elsewhere may keep one of them from us.
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

    /// Has an actor do something, which waits for an ordinary call that it is busy with.
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

impl Crew for Inline {
    fn invoke(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        method: u16,
        invocation: &mut Invocation<'_>,
    ) -> Result<(), Box<Failure>> {
        self.with(seat, actor, |cell| cell.invoke(method, invocation))
    }

    fn hop(
        &mut self,
        seat: &mut usize,
        actor: ActorId,
        compute: ComputeHop,
        hop: &mut Hop<'_>,
    ) -> Result<(), Box<Failure>> {
        self.with(seat, actor, |cell| cell.hop(compute, hop))
    }

    fn is_called(&self) -> bool {
        true
    }
}
