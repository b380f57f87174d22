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
            Liveness::Alive => self.record.home.call(call),
        }
    }
}
