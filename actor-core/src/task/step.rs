//! The steps of submitted calls: an event comes in, and effects come out. Nothing here runs user code.

use std::sync::Arc;

use selvedge_channels::Traits;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::alias::{AliasError, Target};
use selvedge_objects::refs::RefId;

use super::board::{
    BlockedCall, Board, CallPost, NewTask, SchedulableWorker, Task, TaskArguments, TaskEffect, TaskEvent,
    TaskLife, cores,
};
use crate::actor::arguments::Returned;
use crate::call::remote_error::{Ran, RemoteError};
use crate::cancel::CallCancel;
use crate::failure::{Failure, FunctionPlace};
use crate::lineage::{LineageStep, Loss, Lost, Spec};
use crate::process_end::ProcessEnd;
use crate::reference::Ref;
use crate::reference::content::Content;
use crate::reference::handle::Handle;
use crate::reference::set_value::SetValue;
use crate::reference::transit::{Beside, arriving};
use crate::remote::calls::CallId;
use crate::remote::request::EncodedArguments;
use crate::remote::waiter::Outcome;
use crate::schedule::{Infeasible, Resources};

/// The error of a submitted call that was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled: `Runtime::cancel` was called for it")]
pub struct CallCancelled;

selvedge_channels::debug_is_report!(CallCancelled);

impl Board {
    /// Takes note of an event. `workers` are the living processes besides this one, of which a new one is looked at; `None` if they are
    /// those of the event before.
    pub(super) fn step(
        &mut self,
        event: TaskEvent,
        mut workers: Option<Vec<Peer>>,
        look: impl Fn(Peer) -> SchedulableWorker,
    ) -> Vec<TaskEffect> {
        let mut effects = Vec::new();
        self.meet(workers.as_mut(), &look, &mut effects);
        match event {
            TaskEvent::Submitted(new) => self.submitted_in_time(*new, &mut effects),
            TaskEvent::InputMade { call } => self.scheduler.input_made(call),
            TaskEvent::Encoded {
                call,
                attempt,
                worker,
                arguments,
            } => self.encoded((call, attempt), worker, arguments, &mut effects),
            TaskEvent::Ended {
                call,
                attempt,
                worker,
                outcome,
            } => self.ended(call, attempt, worker, outcome, &mut effects),
            TaskEvent::Prepared {
                call,
                handles,
                revived,
            } => self.prepared(call, handles, &revived, &mut effects),
            TaskEvent::Adopted(call, target, was_freed) => {
                self.adopted(call, target, was_freed, &mut effects)
            }
            TaskEvent::Lost { object, value, copy } => self.value_lost(object, value, copy, &mut effects),
            TaskEvent::TargetMade { call, content } => self.finish(call, content, &mut effects),
            TaskEvent::Blocked { by, is_blocked } => {
                let call = match by {
                    BlockedCall::Here(call) => Some(call),
                    BlockedCall::At(peer, asked) => self.asked_of(peer, asked),
                };
                call.into_iter()
                    .for_each(|call| self.scheduler.set_blocked(call, is_blocked));
            }
            TaskEvent::Freed(object) => self.freed(object, &mut effects),
            TaskEvent::Cancelled(object) => self.cancelled(object, &mut effects),
            TaskEvent::JobEnded(job) => self.job_ended(job, &mut effects),
            TaskEvent::WorkersChanged => {}
            TaskEvent::WorkerDied(worker) => {
                self.offers.remove(&worker);
                self.dead.note(worker);
                // Each of its calls is told by itself, and goes on as lost.
                let (_, hopeless) = self.scheduler.remove_worker(worker);
                self.infeasible(hopeless, &mut effects);
            }
            TaskEvent::Offers(worker, offers) => {
                self.offers.insert(worker, offers.clone());
                if self.scheduler.is_open(worker) {
                    let hopeless = self.scheduler.add_worker(worker, offers);
                    self.scheduler.set_apart_from_threads(worker);
                    self.scheduler.set_sharing(worker, false);
                    self.infeasible(hopeless, &mut effects);
                }
            }
        }
        // A worker may have gone.
        self.meet(workers.as_mut(), &look, &mut effects);
        self.start(&mut effects);
        effects
    }

    /// The arguments of a call are encoded, and it can be sent to the worker that it was encoded for.
    fn encoded(
        &mut self,
        (call, attempt): (u64, u32),
        worker: Peer,
        arguments: EncodedArguments,
        effects: &mut Vec<TaskEffect>,
    ) {
        let arguments = TaskArguments::Encoded(arguments);
        let task = self.tasks.get_mut(&call);
        let Some(task) = task.filter(|task| !task.has_ended()) else {
            return effects.push(TaskEffect::DropArguments(arguments));
        };
        task.new.arguments = arguments;
        effects.push(TaskEffect::Run {
            call,
            attempt,
            worker,
        });
    }

    /// An attempt of a call is about to be sent to a worker, or to run here. Returns false if it is not wanted any more.
    pub(super) fn sent(
        &mut self,
        (call, attempt): (u64, u32),
        worker: Peer,
        cancel: &Arc<CallCancel>,
        asked: Option<CallId>,
    ) -> bool {
        let counts = self.lineage.attempt(call) == attempt && !self.awaits_inputs(call);
        let task = self.tasks.get_mut(&call).filter(|_| counts);
        let Some(task) = task.filter(|task| matches!(task.life, TaskLife::Queued)) else {
            return false;
        };
        self.asked.extend(asked.map(|asked| (asked, call)));
        let cancel = Arc::clone(cancel);
        task.life = TaskLife::Runs {
            post: CallPost {
                worker,
                cancel,
                asked,
            },
            is_withdrawn: false,
        };
        true
    }

    /// The call that a process names, if it is there.
    fn asked_of(&self, peer: Peer, asked: CallId) -> Option<u64> {
        let call = *self.asked.get(&asked)?;
        if let Some(ending) = self.ending.get(&call) {
            return (ending.worker == peer).then_some(call);
        }
        match &self.tasks.get(&call)?.life {
            TaskLife::Runs { post, .. } if post.worker == peer => Some(call),
            _ => None,
        }
    }

    /// Notes which workers there are. Without any, this process is the worker, unless it takes no work.
    fn meet(
        &mut self,
        workers: Option<&mut Vec<Peer>>,
        look: &impl Fn(Peer) -> SchedulableWorker,
        effects: &mut Vec<TaskEffect>,
    ) {
        let Some(workers) = workers else { return };
        workers.retain(|worker| !self.dead.has(*worker));
        if workers.is_empty() && self.takes_work {
            workers.push(self.me);
        }
        for peer in &*workers {
            if !self.scheduler.is_open(*peer) {
                let is_me = *peer == self.me;
                let worker = if is_me {
                    SchedulableWorker::default()
                } else {
                    look(*peer)
                };
                let set = self.offers.get(peer).cloned();
                let own = || Resources::cpus(worker.cores.unwrap_or_else(cores));
                let (is_set, offers) = (set.is_some(), set.unwrap_or_else(own));
                let hopeless = self.scheduler.add_worker(*peer, offers);
                self.scheduler.set_sharing(*peer, worker.is_near && !is_set);
                if is_set {
                    self.scheduler.set_apart_from_threads(*peer);
                }
                self.infeasible(hopeless, effects);
            }
        }
        for peer in self.scheduler.open_workers() {
            // They are in the order of their numbers.
            if workers.binary_search(&peer).is_err() {
                let hopeless = self.scheduler.close_worker(peer);
                self.infeasible(hopeless, effects);
            }
        }
    }

    fn submitted(&mut self, new: NewTask, effects: &mut Vec<TaskEffect>) {
        if self.objects.contains_key(&new.object) {
            // The letter of a process that names an object twice: the first call makes it.
            return effects.push(TaskEffect::Drop(Box::new(Task::new(new))));
        }
        if let Some(known) = self.known(&new) {
            return self.adopt(known, new, effects);
        }
        let call = self.next_number();
        let (object, needs) = (new.object, new.options.needs.clone());
        let known = new
            .inputs
            .iter()
            .map(|input| self.objects.get(&input.id()).copied());
        let inputs: Vec<u64> = known.clone().flatten().collect();
        let strangers = new.inputs.iter().zip(known).filter(|(_, known)| known.is_none());
        let strangers: Vec<Arc<Handle>> = strangers.map(|(input, _)| Arc::clone(input)).collect();
        let bytes = new.arguments.inline_bytes();
        let pinned = new.pinned;
        let spec = Spec {
            inputs,
            retries: new.options.retries.filter(|_| pinned.is_none()),
            bytes: bytes + new.stored_bytes + std::mem::size_of::<Task>(),
        };
        self.objects.insert(object, call);
        self.aliases.register(object);
        let missing = self.lineage.submit(call, spec) + strangers.len();
        self.nest(call, &new, effects);
        let mut task = Task::new(new);
        let watched = strangers
            .into_iter()
            .map(|input| TaskEffect::Watch(call, input, task.begin_wait()));
        let watched: Vec<TaskEffect> = watched.filter(|_| pinned.is_none()).collect();
        self.tasks.insert(call, task);
        match pinned {
            // It waits for its inputs there, and for nothing else.
            Some(process) => effects.push(TaskEffect::Run {
                call,
                attempt: 1,
                worker: Peer {
                    process,
                    incarnation: self.me.incarnation,
                },
            }),
            None => {
                let submitted = self.scheduler.submit(call, needs, missing);
                if let Err(Infeasible { .. }) = submitted {
                    return self.infeasible(vec![call], effects);
                }
                effects.extend(watched);
            }
        }
    }

    /// Starts what can start.
    fn start(&mut self, effects: &mut Vec<TaskEffect>) {
        while let Some(start) = self.scheduler.next_start() {
            let deaths = self.lineage.deaths(start.call);
            if deaths > 0 && start.worker == self.me {
                let content = self.lost(start.call, Lost::NoWorkerLeft { deaths });
                self.finish(start.call, content, effects);
                continue;
            }
            let task = self.tasks.get(&start.call);
            if task.is_some_and(|task| task.new.function.is_async()) {
                // It may wait for others at any time, and tells nobody.
                self.scheduler.set_blocked(start.call, true);
            }
            effects.push(TaskEffect::Run {
                call: start.call,
                attempt: self.lineage.attempt(start.call),
                worker: start.worker,
            });
        }
    }

    /// Calls that no worker could run.
    pub(super) fn infeasible(&mut self, calls: Vec<u64>, effects: &mut Vec<TaskEffect>) {
        for call in calls {
            let Some(task) = self.tasks.get(&call) else {
                continue;
            };
            let why = Lost::Infeasible {
                needs: task.new.options.needs.to_string(),
                offered: self.scheduler.offered(),
            };
            let content = self.lost(call, why);
            self.finish(call, content, effects);
        }
    }

    fn ended(
        &mut self,
        call: u64,
        attempt: u32,
        worker: Peer,
        outcome: Outcome,
        effects: &mut Vec<TaskEffect>,
    ) {
        if let Some(ended) = self.ending.remove(&call) {
            self.forget_asked(ended.asked);
            self.scheduler.end(call);
            return effects.push(TaskEffect::DropOutcome(outcome));
        }
        let counts = self.lineage.attempt(call) == attempt;
        let task = self.tasks.get_mut(&call).filter(|_| counts);
        let task = task.filter(|task| !task.has_ended());
        let Some(task) = task else {
            return effects.push(TaskEffect::DropOutcome(outcome));
        };
        let before = std::mem::replace(&mut task.life, TaskLife::Queued);
        let mut was_withdrawn = false;
        if let TaskLife::Runs { post, is_withdrawn } = before {
            self.forget_asked(post.asked);
            was_withdrawn = is_withdrawn;
        }
        self.scheduler.end(call);
        match outcome {
            Err(RemoteError::Cancelled) if was_withdrawn => {
                let steps = self.lineage.withdrawn(call, attempt);
                self.perform(steps, effects);
            }
            Err(RemoteError::Died { ran, end }) => self.died((call, attempt), worker, (ran, end), effects),
            Ok(returned) => self.returned(call, returned, effects),
            Err(error) => {
                let content = Err(self.unmade(call, worker, error));
                self.finish(call, content, effects);
            }
        }
    }

    /// No letter of a worker about this call counts any more.
    fn forget_asked(&mut self, asked: Option<CallId>) {
        if let Some(asked) = asked {
            self.asked.remove(&asked);
        }
    }

    /// The worker of a call has died.
    fn died(
        &mut self,
        (call, attempt): (u64, u32),
        worker: Peer,
        (ran, end): (Ran, Arc<ProcessEnd>),
        effects: &mut Vec<TaskEffect>,
    ) {
        let process = worker.process;
        let loss = match ran {
            Ran::Never => Loss::DeathBefore { process, end },
            _ => Loss::Death { process, end },
        };
        let Some(task) = self.tasks.get(&call) else { return };
        if task.new.pinned.is_some() {
            let content = self.lost(call, Lost::Pinned { process, loss });
            return self.finish(call, content, effects);
        }
        if task.is_released && !self.lineage.is_read(call) {
            // Nobody would see that it has run again, now or when a reader of it runs again.
            let content = self.lost(call, Lost::NotPure { loss });
            return self.finish(call, content, effects);
        }
        // The scheduler must not give the worker anything more.
        self.dead.note(worker);
        let (_, hopeless) = self.scheduler.remove_worker(worker);
        self.infeasible(hopeless, effects);
        let steps = self.lineage.died(call, attempt, &loss, ran == Ran::Unknown);
        self.perform(steps, effects);
    }

    /// A function has returned.
    fn returned(&mut self, call: u64, returned: Returned, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get(&call) else { return };
        let made = match (returned, task.new.alias) {
            (Returned::Kept(value), None) => Ok(value),
            (Returned::Kept(value), Some(reference)) => match reference(&value) {
                Some(target) => return self.stands_for(call, target, effects),
                None => {
                    effects.push(TaskEffect::DropContent(Ok(value)));
                    Err("a reference of another type")
                }
            },
            (Returned::Passed(body, Beside(handles)), None) => {
                Ok(SetValue::new(body.to_bytes(), handles).into_object())
            }
            (Returned::Passed(body, Beside(handles)), Some(_)) => {
                // A reference is decoded by code of ours alone.
                let decode = || body.decoded::<Ref<()>>(const { &Traits::LETTER });
                match arriving(handles, decode) {
                    Ok(target) => return self.stands_for(call, Arc::clone(target.handle()), effects),
                    Err(_) => Err("a reference that cannot be read"),
                }
            }
            (returned @ Returned::Local(_), _) => {
                effects.push(TaskEffect::DropOutcome(Ok(returned)));
                Err("a value in a form that nobody asked for")
            }
        };
        let content = made.map_err(|text| Arc::new(Failure::Internal(text.to_owned())));
        self.finish(call, content, effects);
    }

    /// A function has returned a reference: the value of the call is its value.
    pub(super) fn stands_for(&mut self, call: u64, target: Arc<Handle>, effects: &mut Vec<TaskEffect>) {
        let id = target.id();
        let known = self.objects.get(&id).and_then(|known| self.tasks.get(known));
        // A call that has ended stands for nothing any more, whatever the table says of it: one that was cancelled has a failure of its
        // own.
        let is_pending = known.is_some_and(|known| !known.has_ended());
        let Some(task) = self.tasks.get_mut(&call) else {
            return effects.push(TaskEffect::DropHandles(vec![target]));
        };
        let object = task.new.object;
        task.life = TaskLife::Stands;
        task.target = Some(Arc::clone(&target));
        if !is_pending {
            return effects.push(TaskEffect::Follow(call, target, task.begin_wait()));
        }
        match self.aliases.alias(object, id) {
            // The class has a value already: the target's.
            Ok(members) if !members.is_empty() => {
                effects.push(TaskEffect::Follow(call, target, task.begin_wait()));
            }
            Ok(_) => {}
            Err(error) => self.refused(call, error, effects),
        }
    }

    fn refused(&mut self, call: u64, error: AliasError, effects: &mut Vec<TaskEffect>) {
        if let Some(task) = self.tasks.get_mut(&call) {
            let target = task.target.take();
            effects.push(TaskEffect::DropHandles(target.into_iter().collect()));
            let failure = Failure::from_error(error).unmade(self.place(call, None));
            self.finish(call, Err(Arc::new(failure)), effects);
        }
    }

    /// The value of a call is there, or its failure: and with it those of all that stand for it.
    pub(super) fn finish(&mut self, call: u64, content: Content, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get(&call) else {
            return effects.push(TaskEffect::DropContent(content));
        };
        let object = task.new.object;
        let members = match self.aliases.target(object) {
            Some(Target::Alias(_)) => self.aliases.descent(object),
            _ => self.aliases.ready(object).unwrap_or_else(|_| vec![object]),
        };
        let mut is_taken = false;
        for member in members {
            is_taken |= self.fill(member, &content, effects);
        }
        if !is_taken {
            // It is user code that drops the last of a value, and here is the board's lock.
            effects.push(TaskEffect::DropContent(content));
        }
    }

    /// Ends a call with its content. Returns false if there is none that has not ended.
    fn fill(&mut self, object: RefId, content: &Content, effects: &mut Vec<TaskEffect>) -> bool {
        let known = self.of_object(object);
        let Some((call, task)) = known.filter(|(_, task)| !task.has_ended()) else {
            return false;
        };
        let is_failed = content.is_err();
        let before = std::mem::replace(&mut task.life, TaskLife::Ended { is_failed });
        let is_released = task.is_released;
        let arguments = std::mem::replace(&mut task.new.arguments, TaskArguments::Dropped);
        let inputs = std::mem::take(&mut task.new.inputs);
        effects.push(TaskEffect::EndWaits(std::mem::take(&mut task.waits)));
        self.end_run(call, before, effects);
        let may_run_again = !is_failed && self.lineage.is_remakeable(call);
        match may_run_again {
            true => self.keep_arguments(call, arguments, &inputs, effects),
            false => effects.push(TaskEffect::DropArguments(arguments)),
        }
        effects.push(TaskEffect::DropHandles(inputs));
        effects.push(TaskEffect::Fill(object, content.clone()));
        if may_run_again {
            effects.push(TaskEffect::Remakeable(object, true));
        }
        let attempt = self.lineage.attempt(call);
        let steps = match is_failed {
            true => self.lineage.failed(call, attempt),
            false => self.lineage.made(call, attempt),
        };
        self.perform(steps.unwrap_or_default(), effects);
        if is_released {
            let steps = self.lineage.released(call);
            self.perform(steps, effects);
        }
        true
    }

    /// A call has its content. The function of one that was cancelled may run yet, and keeps what it needs.
    fn end_run(&mut self, call: u64, life: TaskLife, effects: &mut Vec<TaskEffect>) {
        let TaskLife::Runs { post, .. } = life else {
            self.scheduler.end(call);
            return;
        };
        self.ending.insert(call, post.clone());
        effects.push(TaskEffect::Interrupt(post));
    }

    pub(super) fn perform(&mut self, steps: Vec<LineageStep>, effects: &mut Vec<TaskEffect>) {
        for step in steps {
            match step {
                LineageStep::Run { call, missing, .. } => self.run_again(call, missing, effects),
                LineageStep::InputMade { call } => self.scheduler.input_made(call),
                LineageStep::InputLost { call } => self.input_lost(call, effects),
                LineageStep::Fail { call, why } => self.give_up(call, why, effects),
                // Values are dropped by the count of references.
                LineageStep::Drop { .. } => {}
                LineageStep::DropSpec { call } => self.drop_arguments(call, effects),
                LineageStep::Forget { call } => self.forget(call, effects),
                // An effect, as the hold is that it ends: both may be due in one step.
                LineageStep::LetGo { call } => effects.push(TaskEffect::LetGo(call)),
            }
        }
    }

    fn forget(&mut self, call: u64, effects: &mut Vec<TaskEffect>) {
        if !self.ending.contains_key(&call) {
            self.scheduler.end(call);
        }
        let Some(task) = self.tasks.remove(&call) else {
            return;
        };
        let object = task.new.object;
        self.objects.remove(&object);
        // What stands for it holds it, so nothing does.
        let _ = self.aliases.remove(object);
        effects.push(TaskEffect::Drop(Box::new(task)));
    }

    /// The last reference to the object was dropped.
    fn freed(&mut self, object: RefId, effects: &mut Vec<TaskEffect>) {
        let Some((call, task)) = self.of_object(object) else {
            return;
        };
        task.is_released = true;
        if task.has_ended() {
            let steps = self.lineage.released(call);
            self.perform(steps, effects);
        }
    }

    fn cancelled(&mut self, object: RefId, effects: &mut Vec<TaskEffect>) {
        let Some(call) = self.objects.get(&object).copied() else {
            return;
        };
        let Some(task) = self.tasks.get(&call).filter(|task| !task.has_ended()) else {
            return;
        };
        let repeated = self.repeated(task).filter(|repeated| *repeated != object);
        if let Some(repeated) = repeated {
            return self.cancelled(repeated, effects);
        }
        let failure = Failure::from_error(CallCancelled).unmade(self.place(call, None));
        self.finish(call, Err(Arc::new(failure)), effects);
    }

    /// Takes a call, which ends at once if its job has ended while the call was on its way.
    fn submitted_in_time(&mut self, new: NewTask, effects: &mut Vec<TaskEffect>) {
        let (object, job) = (new.object, new.job);
        self.submitted(new, effects);
        if job.is_some_and(|job| self.dead.has(job)) {
            self.cancelled(object, effects);
        }
    }

    /// Cancels the calls of a job that has ended.
    fn job_ended(&mut self, job: Peer, effects: &mut Vec<TaskEffect>) {
        self.dead.note(job);
        let of_job = self.tasks.values().filter(|task| task.new.job == Some(job));
        let objects: Vec<RefId> = of_job.map(|task| task.new.object).collect();
        objects
            .into_iter()
            .for_each(|object| self.cancelled(object, effects));
    }

    /// The content of a value that is lost.
    pub(super) fn lost(&self, call: u64, why: Lost) -> Content {
        let place = self.place(call, why.process());
        Err(Arc::new(Failure::from(why).unmade(place)))
    }

    /// The failure of a call that a process has not run, or whose function has failed there.
    fn unmade(&self, call: u64, worker: Peer, error: RemoteError) -> Arc<Failure> {
        let failure = match error {
            RemoteError::Failed(failure) => failure,
            other => Failure::from_error(other),
        };
        Arc::new(failure.unmade(self.place(call, Some(worker.process))))
    }

    /// The function of a call, for its failure, with the process that has failed, or else the one that has the call.
    fn place(&self, call: u64, failed: Option<ProcessId>) -> FunctionPlace {
        let task = self.tasks.get(&call);
        let at = |task: &Task| match &task.life {
            TaskLife::Runs { post, .. } => Some(post.worker.process),
            _ => task.new.pinned,
        };
        let process = failed.or_else(|| task.and_then(at));
        FunctionPlace {
            path: task.map_or_else(String::new, |task| task.new.function.path.to_owned()),
            process: process.map(|process| self.names.name(process)),
        }
    }
}
