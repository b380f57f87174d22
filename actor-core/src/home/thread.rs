//! The home on a lane of this process.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::actor::arguments::ArgumentsKind;
use crate::call::request::ActorCall;
use crate::cell::Blueprint;
use crate::failure::Failure;
use crate::home::keep::{LaneHome, LaneKeep, StartThread};
use crate::home::placement::PlacementLabel;
use crate::home::{BuildReply, Home};
use crate::id::{ActorId, Address, LaneId, ProcessId};
use crate::lane::mailbox::LaneMessage;
use crate::lane::thread::LaneThread;
use crate::spawn_error::SpawnError;

/// The home of an actor on a thread of this process.
struct ThreadHome(Arc<LaneThread>);

impl Home for ThreadHome {
    fn address(&self) -> Address {
        Address::of(ProcessId::DRIVER, self.0.id())
    }

    fn label(&self) -> PlacementLabel {
        PlacementLabel::Thread
    }

    fn arguments(&self) -> ArgumentsKind {
        ArgumentsKind::Local
    }

    fn build(&self, blueprint: &Blueprint, done: BuildReply) {
        let name = Arc::clone(&blueprint.name);
        let created = move |result: Result<(), Failure>| {
            let error = |failure: Failure| SpawnError::not_built(name.to_string(), failure);
            done(result.map_err(error));
        };
        // A lane that has ended drops the message, and `done` with it.
        let _ = self
            .0
            .push(LaneMessage::Create(blueprint.clone(), Box::new(created)));
    }

    fn call(&self, call: ActorCall) {
        self.0.call(call);
    }

    fn remove(&self, actor: ActorId) {
        // A lane that has ended has no actors.
        let _ = self.0.push(LaneMessage::Remove(actor));
    }

    fn wake_async(&self) {
        self.0.wake_async();
    }

    fn is_waiting(&self) -> bool {
        self.0.is_waiting()
    }
}

/// A lane of this process. Its thread starts with the lane's first actor.
#[derive(Default)]
pub(crate) struct ThreadLane(Mutex<Option<Arc<LaneThread>>>);

impl LaneHome for ThreadLane {
    fn actor_home(&self, lane: &LaneKeep, start: StartThread<'_>) -> Result<Box<dyn Home>, SpawnError> {
        let mut thread = self.0.lock();
        lane.not_ended()?;
        let running = match &*thread {
            Some(running) => Arc::clone(running),
            None => Arc::clone(thread.insert(start()?)),
        };
        Ok(Box::new(ThreadHome(running)))
    }

    fn stop(&self, _: LaneId) {
        self.0.lock().iter().for_each(|thread| thread.stop());
    }

    fn end(&self, _: LaneId, deadline: Instant) -> bool {
        let thread = self.0.lock().clone();
        thread.is_none_or(|thread| {
            thread.stop();
            let ended = thread.join_until(deadline);
            if !ended {
                thread.abandon();
            }
            ended
        })
    }
}
