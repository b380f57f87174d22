//! Effects: the work that follows when something has happened to submitted calls, without the lock.

use std::sync::Arc;

use selvedge_channels::dispose;
use selvedge_cluster::peer::Peer;

use super::blocking::Scheduled;
use super::board::{
    KeptReference, SchedulableWorker, TaskArguments, TaskEffect, TaskEvent, TaskLife, UntilEnded,
};
use super::outer::CallName;
use super::tasks::{TaskHost, Tasks};
use crate::actor::arguments::Arguments;
use crate::call::remote_error::{Ran, RemoteError};
use crate::cancel::CallCancel;
use crate::failure::Failure;
use crate::reference::Ref;
use crate::reference::handle::Handle;
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionEntry, Invocation, Wants};
use crate::remote::message::CallMessage;
use crate::remote::put::is_large;
use crate::remote::request::{EncodedArguments, Request};
use crate::remote::service::Remote;
use crate::remote::waiter::Outcome;

/// The way for the outcome of an attempt.
type TellOutcome = Box<dyn FnOnce(Outcome) + Send>;

/// The form of the value of a call that runs in this process.
const IN_PLACE: Wants = Wants::Submitted { may_stay: false };

impl TaskHost for Remote {
    fn serve(&self, tasks: &Arc<Tasks>, event: TaskEvent) {
        // Since it was freed, a call that runs again may have taken hold of the object.
        if matches!(event, TaskEvent::Freed(object) if self.references.is_held(object)) {
            return;
        }
        let look = |peer| SchedulableWorker {
            is_near: self.post.is_near(peer),
            cores: self.post.cores(peer),
        };
        let is_to_meet = tasks.board.lock().is_to_meet(&event);
        let workers = is_to_meet.then(|| self.post.peers());
        let effects = tasks.board.lock().step(event, workers, look);
        effects.into_iter().for_each(|effect| tasks.perform(self, effect));
    }
}

impl Tasks {
    fn perform(self: &Arc<Self>, remote: &Remote, effect: TaskEffect) {
        match effect {
            TaskEffect::Run {
                call,
                attempt,
                worker,
            } => self.run(remote, call, attempt, worker),
            TaskEffect::Fill(object, content) => remote.fill(object, content),
            TaskEffect::Interrupt(post) => match post.asked {
                Some(call) => remote.say_of_call(post.worker, &CallMessage::Interrupt { call }),
                None => post.cancel.cancel(),
            },
            TaskEffect::Withdraw(post) => match post.asked {
                Some(call) => remote.say_of_call(post.worker, &CallMessage::Withdraw { call }),
                None => post.cancel.withdraw(),
            },
            TaskEffect::Prepare(call) => self.prepare(remote, call),
            TaskEffect::Adopt { call, object } => {
                let (target, was_freed) = remote.references.hold_again(object);
                self.event(TaskEvent::Adopted(call, target, was_freed));
            }
            TaskEffect::HoldForOuter { call, object } => {
                // The call is new: if the object was freed already, it is to have its value all the same.
                let (held, _) = remote.references.hold_again(object);
                self.board.lock().held_for_outer.insert(call, held);
            }
            TaskEffect::LetGo(call) => {
                let held = self.board.lock().held_for_outer.remove(&call);
                drop(held);
            }
            TaskEffect::Remakeable(object, is_remakeable) => {
                remote.references.set_remakeable(object, is_remakeable);
            }
            TaskEffect::Lose(object, value, copy) => {
                remote.references.lost(object, &value, copy);
                remote.do_soon(move || dispose(value));
            }
            TaskEffect::Watch(call, input, ended) => self.watch(remote, call, input, ended),
            TaskEffect::Follow(call, target, ended) => self.follow(remote, call, target, ended),
            TaskEffect::EndWaits(waits) => drop(waits),
            TaskEffect::Drop(task) => remote.do_soon(move || dispose(task)),
            TaskEffect::DropArguments(TaskArguments::Here(request)) => {
                remote.do_soon(move || dispose(request));
            }
            TaskEffect::DropArguments(arguments) => drop(arguments),
            TaskEffect::DropHandles(handles) => drop(handles),
            TaskEffect::DropOutcome(outcome) => remote.do_soon(move || dispose(outcome)),
            TaskEffect::DropContent(content) => remote.do_soon(move || dispose(content)),
        }
    }

    /// Holds the references in the arguments of a call again that is to run again.
    fn prepare(self: &Arc<Self>, remote: &Remote, call: u64) {
        let board = self.board.lock();
        let references = match board.tasks.get(&call).map(|task| &task.new.arguments) {
            Some(TaskArguments::Kept { references, .. }) => references.clone(),
            _ => return,
        };
        drop(board);
        let mut revived = Vec::new();
        let mut hold = |kept| match kept {
            KeptReference::Held(handle) => handle,
            KeptReference::Named(id) => {
                let (handle, was_freed) = remote.references.hold_again(id);
                revived.extend(was_freed.then_some(id));
                handle
            }
        };
        let handles: Vec<Arc<Handle>> = references.into_iter().map(&mut hold).collect();
        self.event(TaskEvent::Prepared {
            call,
            handles,
            revived,
        });
    }

    /// Has a call run at a worker.
    fn run(self: &Arc<Self>, remote: &Remote, call: u64, attempt: u32, worker: Peer) {
        let mut board = self.board.lock();
        if board.awaits_inputs(call) {
            return;
        }
        let task = board.tasks.get_mut(&call);
        let Some(task) = task.filter(|task| matches!(task.life, TaskLife::Queued)) else {
            return;
        };
        let is_pinned = task.new.pinned.is_some();
        let (function, is_here) = (task.new.function, worker.process == self.me.process);
        let arguments = match &task.new.arguments {
            TaskArguments::Encoded(encoded) => TaskArguments::Encoded(encoded.clone()),
            _ => std::mem::replace(&mut task.new.arguments, TaskArguments::Dropped),
        };
        let may_stay = board.lineage.outlives_loss(call);
        let name = board.name(call);
        drop(board);
        let run = CallRun {
            call,
            attempt,
            worker,
            function,
            is_pinned,
            may_stay,
            name,
        };
        match (arguments, is_here) {
            (TaskArguments::Dropped | TaskArguments::Kept { .. }, _) => {}
            (TaskArguments::Here(request), true) => self.run_here(remote, run, request.here(IN_PLACE)),
            (TaskArguments::Encoded(encoded), true) => {
                let invocation = Invocation {
                    arguments: Arguments::Bytes(encoded.body),
                    handles: encoded.handles,
                    wants: IN_PLACE,
                };
                self.run_here(remote, run, Ok(invocation));
            }
            (TaskArguments::Encoded(encoded), false) => self.send(remote, run, encoded),
            (TaskArguments::Here(request), false) => self.encode(remote, &run, request),
        }
    }

    /// Encodes the arguments, by user code: a worker has come since the call was submitted. The call is sent after that in its turn, so that
    /// the end of the call, or the loss of an input, cannot overtake it on the way to the worker.
    fn encode(self: &Arc<Self>, remote: &Remote, run: &CallRun, request: Box<Request>) {
        let (tasks, told) = (Arc::clone(self), self.told(remote, run));
        let (call, attempt, worker) = (run.call, run.attempt, run.worker);
        let work = move |(request, told): (Box<Request>, TellOutcome)| {
            let encoded = request.encode();
            dispose(request);
            match encoded {
                Ok(arguments) => tasks.event(TaskEvent::Encoded {
                    call,
                    attempt,
                    worker,
                    arguments,
                }),
                Err(error) => told(Err(error)),
            }
        };
        remote.do_soon_or((request, told), work, |(_, told)| {
            let why = "none is left to encode its arguments".to_owned();
            told(Err(RemoteError::NoThread(why)));
        });
    }

    fn run_here(
        self: &Arc<Self>,
        remote: &Remote,
        run: CallRun,
        invocation: Result<Invocation, RemoteError>,
    ) {
        let told = self.told(remote, &run);
        let invocation = match invocation {
            Ok(invocation) => invocation,
            Err(error) => return told(Err(error)),
        };
        let cancel = Arc::<CallCancel>::default();
        if !self.sent(&run, &cancel, None) {
            return remote.do_soon(move || dispose(invocation));
        }
        let scheduled = Scheduled::Here(run.call);
        remote.run_submitted(run.function, invocation, cancel, (scheduled, run.name), told);
    }

    fn send(self: &Arc<Self>, remote: &Remote, mut run: CallRun, encoded: EncodedArguments) {
        // A call that is for one process names no life of it.
        match remote.find(run.worker.process) {
            Ok(peer) => run.worker = peer,
            // The scheduler has chosen a worker that is gone, and that this process never had to do with.
            Err(RemoteError::NoSuchProcess { .. }) if !run.is_pinned => {
                let died = remote.died(run.worker, Ran::Never);
                return self.told(remote, &run)(Err(died));
            }
            Err(error) => return self.told(remote, &run)(Err(error)),
        }
        let asking = remote.begin_submitted(run.worker, self.told(remote, &run));
        // Noted before the letter is sent: the worker may say at once that the call waits.
        match self.sent(&run, asking.cancel(), Some(asking.call())) {
            true => remote.send_submitted(&asking, (run.function, run.may_stay, run.name), encoded),
            false => remote.end_submitted(&asking),
        }
    }

    /// Notes an attempt that begins; false if it is not wanted any more.
    fn sent(&self, run: &CallRun, cancel: &Arc<CallCancel>, asked: Option<CallId>) -> bool {
        let mut board = self.board.lock();
        board.sent((run.call, run.attempt), run.worker, cancel, asked)
    }

    /// The way for the outcome of an attempt. A large value is put into the store first, on a thread that may take its time.
    fn told(self: &Arc<Self>, remote: &Remote, run: &CallRun) -> TellOutcome {
        let (tasks, remote) = (Arc::clone(self), remote.this());
        let (call, attempt, worker) = (run.call, run.attempt, run.worker);
        let end = move |outcome| {
            tasks.event(TaskEvent::Ended {
                call,
                attempt,
                worker,
                outcome,
            });
        };
        Box::new(move |outcome| match (outcome, remote.upgrade()) {
            (Ok(returned), Some(remote)) if is_large(&returned) => {
                let again = Arc::clone(&remote);
                remote.do_soon_or(
                    (returned, end),
                    move |(returned, end)| end(Ok(again.put_returned(returned))),
                    |(returned, end)| end(Ok(returned)),
                );
            }
            (outcome, _) => end(outcome),
        })
    }

    /// Tells when an input is there that was not submitted here.
    fn watch(self: &Arc<Self>, remote: &Remote, call: u64, input: Arc<Handle>, ended: UntilEnded) {
        let tasks = Arc::downgrade(self);
        let watching = remote.in_background(move || async move {
            let input = Ref::<()>::of(input);
            tokio::select! {
                // The call gets the error itself when it fetches the value.
                _ = input.until_ready() => {}
                _ = ended => return,
            }
            if let Some(tasks) = tasks.upgrade() {
                tasks.event(TaskEvent::InputMade { call });
            }
        });
        if watching.is_err() {
            // Without a thread that waits here, the call waits where it runs.
            self.event(TaskEvent::InputMade { call });
        }
    }

    /// Tells when the value is there for which a call's value stands.
    fn follow(self: &Arc<Self>, remote: &Remote, call: u64, target: Arc<Handle>, ended: UntilEnded) {
        let tasks = Arc::downgrade(self);
        let following = remote.in_background(move || async move {
            let target = Ref::<()>::of(target);
            let content = tokio::select! {
                content = target.content() => content,
                _ = ended => return,
            };
            if let Some(tasks) = tasks.upgrade() {
                tasks.event(TaskEvent::TargetMade { call, content });
            }
        });
        if let Err(refusal) = following {
            let content = Err(Arc::new(Failure::from_error(RemoteError::from(refusal))));
            self.event(TaskEvent::TargetMade { call, content });
        }
    }
}

/// One run of a call.
pub(super) struct CallRun {
    call: u64,
    attempt: u32,
    worker: Peer,
    function: &'static FunctionEntry,
    /// Whether the call is for one process.
    is_pinned: bool,
    /// Whether a large value may stay on the host of its worker: if that dies, the call can run again.
    may_stay: bool,
    /// The name of a call that may run again.
    name: Option<CallName>,
}
