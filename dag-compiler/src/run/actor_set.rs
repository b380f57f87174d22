//! Sets of actors: those that run the methods of a lane's program. They are the actors of a borrowed thread, or the inline
//! actors that run on the thread that drives the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_core::{
    ActorCell, ActorId, Arguments, Cancellation, Compute, Failure, FlightId, Frame, Guarded, LaneHost,
    NoEntry, Overlap, Returned, Sharing,
};

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

    /// Whether a method of an actor with overlapping methods may run now. If not, ask again whenever the lane has moved.
    fn may_run(&mut self, _: ActorId, _: &Sharing) -> bool {
        true
    }

    /// Takes back a question that [`may_run`](Self::may_run) has answered by `false`.
    fn withdraw(&mut self, _: ActorId) {}

    /// Begins a method that overlaps with others.
    fn fly(
        &mut self,
        _: ActorId,
        _: &Overlap,
        _: Arguments,
        _: Cancellation,
    ) -> Result<FlightId, Box<Failure>> {
        let text = "methods of these actors do not overlap";
        Err(Box::new(Failure::Internal(text.to_owned())))
    }

    /// Takes the result of a method in flight, if it has ended.
    fn landed(&mut self, _: FlightId) -> Option<Result<Returned, Failure>> {
        None
    }

    /// Drops a method in flight, where it awaits.
    fn abandon(&mut self, _: FlightId) {}
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

    fn may_run(&mut self, actor: ActorId, sharing: &Sharing) -> bool {
        self.may_run(actor, sharing)
    }

    fn withdraw(&mut self, actor: ActorId) {
        self.withdraw(actor);
    }

    fn fly(
        &mut self,
        actor: ActorId,
        overlap: &Overlap,
        arguments: Arguments,
        cancellation: Cancellation,
    ) -> Result<FlightId, Box<Failure>> {
        self.fly(actor, overlap, arguments, cancellation)
    }

    fn landed(&mut self, flight: FlightId) -> Option<Result<Returned, Failure>> {
        self.landed(flight)
    }

    fn abandon(&mut self, flight: FlightId) {
        self.abandon(flight);
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
