//! The home on a lane of a worker process.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use selvedge_channels::memory::made_in::MadeIn;

use crate::actor::arguments::{Arguments, ArgumentsKind, Returned};
use crate::actor::extension::Extension;
use crate::actor::registry::typed;
use crate::call::request::{ActorCall, CallFault};
use crate::cancel::{Recall, SentCall};
use crate::cell::Blueprint;
use crate::cell::factory::Factory;
use crate::death::Death;
use crate::failure::Failure;
use crate::home::keep::{LaneHome, LaneKeep, StartThread};
use crate::home::placement::PlacementLabel;
use crate::home::{BuildReply, Home};
use crate::id::{ActorId, Address, LaneId};
use crate::promise::promise;
use crate::reference::transit::Beside;
use crate::spawn_error::SpawnError;
use crate::worker::link::{LinkLost, OnResponse, Response, Unsent};
use crate::worker::protocol::{CreateActor, ToWorker};
use crate::worker::record::WorkerRecord;

/// The time that a worker without handles and actors may take to end before it is killed.
const UNUSED_GRACE: Duration = Duration::from_secs(2);

/// The home of an actor in a worker process.
struct WorkerHome {
    worker: Arc<WorkerRecord>,
    lane: LaneId,
    lane_name: Arc<str>,
}

impl Home for WorkerHome {
    fn address(&self) -> Address {
        Address {
            host: self.worker.host(),
            ..Address::of(self.worker.id(), self.lane)
        }
    }

    fn label(&self) -> PlacementLabel {
        PlacementLabel::Process(self.worker.pid())
    }

    fn arguments(&self) -> ArgumentsKind {
        ArgumentsKind::Bytes
    }

    fn build(&self, blueprint: &Blueprint, done: BuildReply) {
        let (actor, worker) = (Arc::clone(&blueprint.name), Arc::clone(&self.worker));
        let gone = move |reason| SpawnError::Worker {
            worker: worker.process_name(),
            reason,
        };
        let Some(link) = self.worker.link() else {
            return done(Err(gone(self.worker.why_gone())));
        };
        let Factory::Constructor(constructor, args) = &blueprint.factory else {
            let actor = blueprint.name.to_string();
            return done(Err(SpawnError::ThisProcessOnly { actor }));
        };
        let last = blueprint
            .checkpoints
            .as_ref()
            .and_then(|checkpoints| checkpoints.last());
        let order = CreateActor {
            lane: self.lane,
            lane_name: self.lane_name.to_string(),
            actor: blueprint.id,
            name: blueprint.name.to_string(),
            type_name: blueprint.entry.key(),
            constructor: *constructor,
            on_panic: blueprint.on_panic,
            core: blueprint.core,
            concurrency: blueprint.concurrency,
            build_limit: blueprint.build_limit,
            checkpoints: blueprint
                .checkpoints
                .as_ref()
                .map(|checkpoints| checkpoints.rules),
            last_bytes: last.as_ref().map(|last| last.len() as u64),
        };
        let on_response = move |response| {
            done(match response {
                Ok(Response::Created(result)) => {
                    let failed =
                        |report| SpawnError::not_built(actor.to_string(), Failure::from_error(report));
                    result.map_err(failed)
                }
                Ok(_) => Err(gone("an answer to another question".to_owned())),
                Err(LinkLost::Died(death)) => Err(gone(end_of_process(&death))),
                Err(LinkLost::NotSent(reason)) => Err(gone(reason)),
            });
        };
        link.request(
            |request| ToWorker::Create { request, order },
            [args, last.as_deref().unwrap_or_default()].concat(),
            Box::new(on_response),
        );
    }

    fn call(&self, call: ActorCall) {
        let (actor, method, reply, cancel) = (call.actor, call.method, call.reply, call.cancel);
        let Arguments::Bytes(body) = call.arguments else {
            let failure = Failure::Internal("a call between processes without bytes".to_owned());
            return reply(Err(CallFault::Failed(failure)));
        };
        let Some(link) = self.worker.link() else {
            return reply(Err(CallFault::NoActor));
        };
        let (lane, index) = (self.lane, method.index);
        let extension = method.extension.map(Extension::key);
        let answered = Arc::clone(&cancel);
        let on_response: OnResponse = Box::new(move |response| {
            answered.answered();
            reply(returned(response));
        });
        let message = |request| ToWorker::Call {
            request,
            lane,
            actor,
            method: index,
            extension,
        };
        let sent: Result<(), Box<Unsent>> = cancel.pass_on(|| {
            let request = link.submit(message, body.into_vec(), on_response)?;
            let way = Arc::downgrade(&link) as Weak<dyn Recall>;
            Ok(SentCall { way, number: request })
        });
        if let Err(unsent) = sent {
            unsent.tell();
        }
    }

    fn remove(&self, actor: ActorId) {
        let lane = self.lane;
        // A worker that has ended has no actors.
        if let Some(link) = self.worker.link() {
            let _ = link.tell(&ToWorker::Remove { lane, actor });
        }
    }

    fn kill(&self, why: &str) -> bool {
        self.worker.kill_because(why);
        true
    }

    fn wake_async(&self) {
        // A worker without a link has ended, and its programs with it.
        if let Some(link) = self.worker.link() {
            let _ = link.tell(&ToWorker::WakeAsync);
        }
    }

    fn worker(&self) -> Option<&Arc<WorkerRecord>> {
        Some(&self.worker)
    }
}

fn returned(response: Result<Response, LinkLost>) -> Result<Returned, CallFault> {
    let failure = match response {
        Ok(Response::Returned(Ok(body))) => return Ok(Returned::Passed(body.into(), Beside::default())),
        Ok(Response::NoActor) => return Err(CallFault::NoActor),
        Err(LinkLost::Died(death)) => return Err(CallFault::Died(death)),
        Ok(Response::Returned(Err(report))) => typed(Failure::from_error(report)),
        Ok(_) => Failure::Internal("an answer to another question".to_owned()),
        Err(LinkLost::NotSent(reason)) => Failure::Internal(reason),
    };
    Err(CallFault::Failed(failure))
}

/// Describes the death of a worker's process, without the name of an actor.
fn end_of_process(death: &Death) -> String {
    let pid = death.pid.map_or_else(String::new, |pid| format!(" {pid}"));
    let last = death.stderr_tail.last();
    let last = last.map_or_else(String::new, |last| format!("; last line on stderr: {last}"));
    format!("its process{pid} has ended: {}{last}", death.exit)
}

/// The shared object that keeps a worker alive: held by the worker's handles and its lanes.
pub(crate) struct WorkerKeep {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) made_in: MadeIn,
}

impl Drop for WorkerKeep {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            self.record.leave(Instant::now() + UNUSED_GRACE);
        }
    }
}

/// A lane of a worker process. The worker starts its thread with the lane's first actor.
pub(crate) struct WorkerLane(pub(crate) Arc<WorkerKeep>);

impl LaneHome for WorkerLane {
    fn actor_home(&self, lane: &LaneKeep, _: StartThread<'_>) -> Result<Box<dyn Home>, SpawnError> {
        lane.not_ended()?;
        Ok(Box::new(WorkerHome {
            worker: Arc::clone(&self.0.record),
            lane: lane.id,
            lane_name: lane.name.as_str().into(),
        }))
    }

    fn worker(&self) -> Option<&Arc<WorkerRecord>> {
        Some(&self.0.record)
    }

    fn stop(&self, lane: LaneId) {
        self.0.record.end_lane(lane, Box::new(|_| {}));
    }

    fn end(&self, lane: LaneId, deadline: Instant) -> bool {
        let (reply, mut answer) = promise();
        let done: OnResponse = Box::new(move |response| reply.keep(response.is_ok()));
        self.0.record.end_lane(lane, done);
        // The lane is gone after any answer, and after a broken promise, which means that the worker is gone.
        answer.wait(Some(deadline)).is_some()
    }
}
