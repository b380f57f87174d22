//! Actor nodes, one for each user actor: a node builds its actor, routes calls to the actor's lane or worker, and holds
//! calls while the actor restarts.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::actor_record::{ActorRecord, Liveness};
use crate::call::request::{ActorCall, CallFault};
use crate::control::messages::NodeMessage;
use crate::control::node::{Node, NodeRef};

pub(crate) struct ActorNode {
    record: Arc<ActorRecord>,
    /// Calls that arrived while the actor restarts.
    held: Vec<ActorCall>,
}

impl Node for ActorNode {
    type Message = NodeMessage;

    async fn handle(&mut self, _myself: &NodeRef<NodeMessage>, message: NodeMessage) -> ControlFlow<()> {
        match message {
            NodeMessage::Build(reply) => {
                let done = Box::new(move |result| reply.keep(result));
                self.record.home.build(&self.record.blueprint, done);
            }
            NodeMessage::Call(call) => self.call(call),
            NodeMessage::Changed => {
                if self.record.liveness() != Liveness::Restarting {
                    for call in std::mem::take(&mut self.held) {
                        self.call(call);
                    }
                }
                if matches!(self.record.liveness(), Liveness::Dead(_)) {
                    // Later calls read the death from the actor's record.
                    return ControlFlow::Break(());
                }
            }
            NodeMessage::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

impl ActorNode {
    pub(crate) fn new(record: Arc<ActorRecord>) -> Self {
        Self {
            record,
            held: Vec::new(),
        }
    }

    fn call(&mut self, call: ActorCall) {
        match self.record.liveness() {
            Liveness::Restarting => self.held.push(call),
            Liveness::Dead(death) => (call.reply)(Err(CallFault::Died(death))),
            Liveness::Alive => {
                // The actor may live again before its node is told: what was held came before.
                let held = std::mem::take(&mut self.held);
                let calls = held.into_iter().chain([call]);
                calls.for_each(|call| self.record.home.call(call));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::actor::arguments::{Arguments, ArgumentsKind};
    use crate::body::Body;
    use crate::cell::Blueprint;
    use crate::death::{Death, Exit};
    use crate::home::placement::{PlacementLabel, Restart};
    use crate::home::{BuildReply, Home};
    use crate::id::{ActorId, Address, HostId, LaneId, ProcessId};

    /// Notes the first byte of the arguments of each call.
    #[derive(Default)]
    struct NotesCalls(Arc<Mutex<Vec<u8>>>);

    impl Home for NotesCalls {
        fn address(&self) -> Address {
            Address {
                host: HostId::DRIVER,
                process: ProcessId(1),
                lane: LaneId(1),
            }
        }

        fn label(&self) -> PlacementLabel {
            PlacementLabel::Thread
        }

        fn arguments(&self) -> ArgumentsKind {
            ArgumentsKind::Bytes
        }

        fn build(&self, _: &Blueprint, _: BuildReply) {}

        fn call(&self, call: ActorCall) {
            if let Arguments::Bytes(body) = call.arguments {
                self.0.lock().extend(body.to_bytes().first());
            }
        }

        fn remove(&self, _: ActorId) {}

        fn wake_async(&self) {}
    }

    fn call(number: u8) -> ActorCall {
        ActorCall {
            actor: ActorId(1),
            method: 0.into(),
            arguments: Arguments::Bytes(Body::from(vec![number])),
            reply: Box::new(|_| {}),
            cancel: Arc::default(),
        }
    }

    #[test]
    fn calls_that_were_held_go_before_those_that_find_the_actor_alive_again() {
        let calls = Arc::<Mutex<Vec<u8>>>::default();
        let home = Box::new(NotesCalls(Arc::clone(&calls)));
        let restart = Restart::OnFailure { max: 1 };
        let record = Arc::new(ActorRecord::new(Blueprint::of_nothing("a"), home, restart));
        let mut node = ActorNode::new(Arc::clone(&record));
        let death = Death {
            actor: "a".to_owned(),
            actors: Box::default(),
            worker: None,
            pid: None,
            exit: Exit::Code(1),
            stderr_tail: Vec::new(),
        };
        record.note_death(&death, true);
        node.call(call(1));
        record.note_revival();
        node.call(call(2));
        assert_eq!(*calls.lock(), [1, 2]);
    }
}
