//! Actor nodes, one for each user actor: a node builds its actor, routes calls to the actor's lane or worker, and holds
//! calls while the actor restarts.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::actor::arguments::{Arguments, Returned};
use crate::actor_record::{ActorRecord, Home, Liveness};
use crate::call::request::CallFault;
use crate::control::messages::{NodeCall, NodeMessage};
use crate::death::Death;
use crate::failure::{Failure, FailureReport};
use crate::id::LaneId;
use crate::lane::mailbox::{LaneCall, LaneMessage, Unserved};
use crate::lane::thread::LaneThread;
use crate::promise::Promise;
use crate::spawn_error::SpawnError;
use crate::worker::link::{LinkLost, OnResponse, Response};
use crate::worker::protocol::{Refusal, ToWorker};
use crate::worker::record::WorkerRecord;

pub(crate) struct ActorNode;

pub(crate) struct NodeState {
    resident: Arc<ActorRecord>,
    /// Calls that arrived while the actor restarts.
    held: Vec<NodeCall>,
}

impl Actor for ActorNode {
    type Msg = NodeMessage;
    type State = NodeState;
    type Arguments = Arc<ActorRecord>;

    async fn pre_start(
        &self,
        _myself: ActorRef<NodeMessage>,
        resident: Arc<ActorRecord>,
    ) -> Result<NodeState, ActorProcessingErr> {
        Ok(NodeState {
            resident,
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
            NodeMessage::Build(reply) => build(&state.resident, reply),
            NodeMessage::Call(call) => state.call(call),
            NodeMessage::Changed => {
                if state.resident.vital() != Liveness::Restarting {
                    for call in std::mem::take(&mut state.held) {
                        state.call(call);
                    }
                }
                if matches!(state.resident.vital(), Liveness::Dead(_)) {
                    // Later calls read the death from the actor's record.
                    myself.stop(None);
                }
            }
        }
        Ok(())
    }
}

impl NodeState {
    fn call(&mut self, call: NodeCall) {
        match self.resident.vital() {
            Liveness::Restarting => self.held.push(call),
            Liveness::Dead(death) => call.reply.keep(Err(CallFault::Died(death))),
            Liveness::Alive => match &self.resident.home {
                Home::Inline(_) => call.reply.keep(Err(CallFault::NoActor)),
                Home::Lane(lane) => self.call_lane(lane, call),
                Home::Worker { worker, lane, .. } => self.call_worker(worker, *lane, call),
            },
        }
    }

    fn call_lane(&self, lane: &LaneThread, call: NodeCall) {
        let reply = call.reply;
        let answer = move |result: Result<Returned, Unserved>| reply.keep(result.map_err(CallFault::from));
        let call = LaneCall {
            actor: self.resident.id(),
            method: call.method,
            arguments: call.arguments,
            reply: Box::new(answer),
        };
        if let Err(LaneMessage::Call(call)) = lane.push(LaneMessage::Call(call)) {
            (call.reply)(Err(Unserved::NoActor));
        }
    }

    fn call_worker(&self, worker: &WorkerRecord, lane: LaneId, call: NodeCall) {
        let NodeCall {
            method,
            arguments,
            reply,
        } = call;
        let Arguments::Bytes(body) = arguments else {
            let failure = Failure::Internal("a call between processes without bytes".to_owned());
            return reply.keep(Err(CallFault::Failed(failure)));
        };
        let Some(link) = worker.link() else {
            return reply.keep(Err(CallFault::NoActor));
        };
        let actor = self.resident.id();
        let on_response: OnResponse = Box::new(move |response| reply.keep(returned(response)));
        link.request(
            |request| ToWorker::Call {
                request,
                lane,
                actor,
                method,
            },
            body,
            on_response,
        );
    }
}

fn returned(response: Result<Response, LinkLost>) -> Result<Returned, CallFault> {
    match response {
        Ok(Response::Returned(Ok(body))) => Ok(Returned::Bytes(body)),
        Ok(Response::Returned(Err(Refusal::Failed(report)))) => {
            Err(CallFault::Failed(Failure::from_error(report)))
        }
        Ok(Response::Returned(Err(Refusal::NoActor))) => Err(CallFault::NoActor),
        Ok(_) => Err(CallFault::Failed(Failure::Internal(
            "an answer to another question".to_owned(),
        ))),
        Err(LinkLost::Died(death)) => Err(CallFault::Died(death)),
        Err(LinkLost::NotSent(reason)) => Err(CallFault::Failed(Failure::Internal(reason))),
    }
}

/// Builds the actor at its home. An inline actor has been built by the thread that spawned it.
fn build(resident: &Arc<ActorRecord>, reply: Promise<Result<(), SpawnError>>) {
    match &resident.home {
        Home::Inline(_) => reply.keep(Ok(())),
        Home::Lane(lane) => {
            let name = resident.name().to_owned();
            let created = move |result: Result<(), Failure>| {
                reply.keep(result.map_err(|failure| SpawnError::not_built(name, failure.into_report())));
            };
            // A lane that has ended drops the message, which breaks the promise.
            let _ = lane.push(LaneMessage::Create(resident.blueprint.clone(), Box::new(created)));
        }
        Home::Worker { worker, .. } => {
            let (name, worker) = (resident.name().to_owned(), worker.name().to_owned());
            build_in_worker(resident, move |result| {
                reply.keep(result.map_err(|lost| match lost {
                    BuildFault::Constructor(failure) => SpawnError::not_built(name, failure),
                    BuildFault::Lost(reason) => SpawnError::Worker { worker, reason },
                }));
            });
        }
    }
}

/// Describes the death of a worker's process, without the name of an actor.
fn of_process(death: &Death) -> String {
    let pid = death.pid.map_or_else(String::new, |pid| format!(" {pid}"));
    let last = death
        .stderr_tail
        .last()
        .map_or_else(String::new, |last| format!("; last line: {last}"));
    format!("its process{pid} has ended: {}{last}", death.exit)
}

/// The reason that a worker did not build an actor.
pub(crate) enum BuildFault {
    Constructor(FailureReport),
    Lost(String),
}

/// Sends the actor's blueprint to its worker. `done` is called with the result.
pub(crate) fn build_in_worker(
    resident: &Arc<ActorRecord>,
    done: impl FnOnce(Result<(), BuildFault>) + Send + 'static,
) {
    let Home::Worker {
        worker,
        lane,
        lane_name,
    } = &resident.home
    else {
        return done(Err(BuildFault::Lost("the actor has no worker".to_owned())));
    };
    let Some(link) = worker.link() else {
        return done(Err(BuildFault::Lost(worker.why_gone())));
    };
    let blueprint = &resident.blueprint;
    let message = |request| ToWorker::Create {
        request,
        lane: *lane,
        lane_name: lane_name.to_string(),
        actor: blueprint.id,
        name: blueprint.name.to_string(),
        type_name: blueprint.entry.key(),
        on_panic: blueprint.on_panic,
        core: blueprint.core,
    };
    let on_response: OnResponse = Box::new(move |response| {
        done(match response {
            Ok(Response::Created(result)) => result.map_err(BuildFault::Constructor),
            Ok(_) => Err(BuildFault::Lost("an answer to another question".to_owned())),
            Err(LinkLost::Died(death)) => Err(BuildFault::Lost(of_process(&death))),
            Err(LinkLost::NotSent(reason)) => Err(BuildFault::Lost(reason)),
        });
    });
    link.request(message, blueprint.args.to_vec(), on_response);
}
