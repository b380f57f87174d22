//! Actor nodes, one for each user actor: a node builds its actor, routes calls to the actor's lane or worker, and holds
//! calls while the actor restarts.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::actor_record::{ActorRecord, Liveness};
use crate::call::request::{ActorCall, CallFault};
use crate::control::messages::NodeMessage;

pub(crate) struct ActorNode;

pub(crate) struct NodeState {
    record: Arc<ActorRecord>,
    /// Calls that arrived while the actor restarts.
    held: Vec<ActorCall>,
}

impl Actor for ActorNode {
    type Msg = NodeMessage;
    type State = NodeState;
    type Arguments = Arc<ActorRecord>;

    async fn pre_start(
        &self,
        _myself: ActorRef<NodeMessage>,
        record: Arc<ActorRecord>,
    ) -> Result<NodeState, ActorProcessingErr> {
        Ok(NodeState {
            record,
            held: Vec::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<NodeMessage>,
        message: NodeMessage,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Build(reply) => {
                let done = Box::new(move |result| reply.keep(result));
                state.record.home.build(&state.record.blueprint, done);
            }
            NodeMessage::Call(call) => state.call(call),
            NodeMessage::Changed => {
                if state.record.liveness() != Liveness::Restarting {
                    for call in std::mem::take(&mut state.held) {
                        state.call(call);
                    }
                }
                if matches!(state.record.liveness(), Liveness::Dead(_)) {
                    // Later calls read the death from the actor's record.
                    myself.stop(None);
                }
            }
        }
        Ok(())
    }
}

impl NodeState {
    fn call(&mut self, call: ActorCall) {
        match self.record.liveness() {
            Liveness::Restarting => self.held.push(call),
            Liveness::Dead(death) => (call.reply)(Err(CallFault::Died(death))),
            Liveness::Alive => self.record.home.call(call),
        }
    }
}
