//! Whom a lane's program asks to run a method: the actors of a borrowed thread, or the inline actors that the
//! driver's own thread runs.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_core::{ActorCell, ActorId, Failure, Invocation, LaneHost};

/// The actors of one lane.
pub(crate) trait Crew {
    /// Runs one method of one actor.
    fn invoke(&mut self, actor: ActorId, method: u16, invocation: &mut Invocation<'_>)
    -> Result<(), Failure>;
}

fn unknown(actor: ActorId) -> Failure {
    Failure::Internal(format!("actor {} does not live on this lane", actor.0))
}

impl Crew for LaneHost<'_> {
    fn invoke(
        &mut self,
        actor: ActorId,
        method: u16,
        invocation: &mut Invocation<'_>,
    ) -> Result<(), Failure> {
        self.actor(actor)
            .ok_or_else(|| unknown(actor))?
            .invoke(method, invocation)
    }
}

/// The actors that run on whichever thread drives the graph.
pub(crate) struct Inline(pub(crate) Vec<(ActorId, Arc<Mutex<ActorCell>>)>);

impl Crew for Inline {
    fn invoke(
        &mut self,
        actor: ActorId,
        method: u16,
        invocation: &mut Invocation<'_>,
    ) -> Result<(), Failure> {
        let cell = self
            .0
            .iter()
            .find(|(id, _)| *id == actor)
            .ok_or_else(|| unknown(actor))?;
        cell.1.lock().invoke(method, invocation)
    }
}
