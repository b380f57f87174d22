//! The caller's side: a call is sent to its process, or run in this one.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selvedge_channels::dispose;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::refs::{Parcel, RefError, RefId};

use crate::actor::arguments::{Arguments, Returned};
use crate::body::Body;
use crate::call::Callee;
use crate::call::remote_error::{Ran, RemoteError};
use crate::call::request::CallFault;
use crate::cancel::{CallCancel, Recall, SentCall};
use crate::current::Current;
use crate::failure::{Failure, FunctionPlace, wake};
use crate::hub::post::PostError;
use crate::process_name::NameBook;
use crate::promise::Answer;
use crate::reference::NamedRef;
use crate::reference::content::Content;
use crate::reference::error::LostArgument;
use crate::reference::handle::Handle;
use crate::reference::unsaid::Unsaid;
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionEntry, Invocation, Wants};
use crate::remote::job::RemoteJob;
use crate::remote::message::CallMessage;
use crate::remote::remote_call::Destination;
use crate::remote::request::{EncodedArguments, Request};
use crate::remote::service::Remote;
use crate::remote::waiter::{Outcome, Waiter};
use crate::task::blocking::Scheduled;
use crate::task::outer::{CallName, OuterCall};

/// A call that was made.
pub(crate) struct Asking {
    pub(crate) process: ProcessId,
    pub(crate) answer: Answer<Result<Returned, CallFault>>,
    pub(crate) cancel: Arc<CallCancel>,
}

/// A submitted call that is listed, and is to be sent.
pub(crate) struct SubmittedAsking {
    peer: Peer,
    call: CallId,
    waiter: Arc<Waiter>,
}

impl SubmittedAsking {
    pub(crate) fn call(&self) -> CallId {
        self.call
    }

    pub(crate) fn cancel(&self) -> &Arc<CallCancel> {
        &self.waiter.cancel
    }
}

impl Asking {
    /// A call that has failed already.
    pub(crate) fn failed(process: ProcessId, error: RemoteError) -> Self {
        Asking {
            process,
            answer: Answer::ready(Err(CallFault::Remote(error))),
            cancel: Arc::default(),
        }
    }
}

impl Remote {
    /// A function in a process, for the errors of its call.
    pub(super) fn callee(&self, function: &FunctionEntry, process: ProcessId) -> Callee {
        Callee::Function(function.path, process, Arc::clone(&self.names))
    }

    /// The content of an object whose function was not run.
    pub(crate) fn kept_nothing(
        &self,
        function: &FunctionEntry,
        process: ProcessId,
        error: RemoteError,
    ) -> Arc<Failure> {
        Arc::new(match error {
            RemoteError::Failed(failure) => failure.unmade(FunctionPlace {
                path: function.path.to_owned(),
                process: Some(self.names.name(process)),
            }),
            other => Failure::from_error(self.callee(function, process).error(other)),
        })
    }

    /// The content of an object whose function has ended in this process.
    pub(super) fn content_of(&self, function: &FunctionEntry, outcome: Outcome) -> Content {
        match outcome {
            Ok(Returned::Kept(value)) => Ok(value),
            Ok(_) => Err(Arc::new(Failure::Internal(
                "a value that was not kept".to_owned(),
            ))),
            Err(error) => Err(self.kept_nothing(function, self.me(), error)),
        }
    }

    /// The number of this process.
    pub(crate) fn me(&self) -> ProcessId {
        self.post.me().process
    }

    /// Whether this process is a job.
    pub(crate) fn is_job(&self) -> bool {
        self.post.is_job(self.post.me())
    }

    /// The process for a call: the one that it names, or the one where its `#[here]` values live, or a worker. Workers are all
    /// processes but the first; if there is none, this process is the worker.
    pub(crate) fn choose(&self, destination: Destination, homes: &[NamedRef]) -> ProcessId {
        let me = self.me();
        match (destination, homes) {
            (Destination::Process(process), _) => return process,
            (Destination::Any, [first, ..]) => return first.id().owner.process,
            (Destination::Any, []) => {}
        }
        self.next_worker().unwrap_or(match self.is_job() {
            true => ProcessId::HEAD,
            false => me,
        })
    }

    /// The next worker in turn.
    fn next_worker(&self) -> Option<ProcessId> {
        // Relaxed: the turns only have to differ, and follow each other in the one variable.
        let mut last = self.turn.load(Ordering::Relaxed);
        loop {
            let behind = ProcessId::new(last).and_then(|last| self.worker_after(last));
            let next = behind.or_else(|| self.worker_after(ProcessId::HEAD))?;
            let (taken, order) = (next.number(), Ordering::Relaxed);
            match self.turn.compare_exchange(last, taken, order, order) {
                Ok(_) => return Some(next),
                Err(other) => last = other,
            }
        }
    }

    /// The worker with the lowest number that is higher than this one.
    fn worker_after(&self, process: ProcessId) -> Option<ProcessId> {
        let peer = self.post.peer_after(process).map(|peer| peer.process);
        let me = Some(self.me()).filter(|me| *me > process && !self.is_job());
        peer.into_iter().chain(me).min()
    }

    /// Makes a call.
    pub(crate) fn ask(&self, process: ProcessId, request: Request, wants: Wants) -> Asking {
        if let Err(error) = request.check(process, &self.names) {
            return Asking::failed(process, error);
        }
        if process == self.me() {
            return self.ask_here(request, wants);
        }
        let sent = self.find(process).and_then(|peer| {
            let encoded = request.encode()?;
            Ok(self.ask_peer(peer, request.function, encoded, wants, request.deadline))
        });
        dispose(request);
        sent.unwrap_or_else(|error| Asking::failed(process, error))
    }

    /// Makes a call with arguments that are encoded already, and that hold no `#[here]` value.
    pub(super) fn ask_encoded(
        &self,
        process: ProcessId,
        function: &'static FunctionEntry,
        encoded: EncodedArguments,
    ) -> Asking {
        if process == self.me() {
            let invocation = Invocation {
                arguments: Arguments::Bytes(encoded.body),
                handles: encoded.handles,
                wants: Wants::Value,
            };
            return self.ask_invoked(function, invocation, None);
        }
        match self.find(process) {
            Ok(peer) => self.ask_peer(peer, function, encoded, Wants::Value, None),
            Err(error) => Asking::failed(process, error),
        }
    }

    /// Makes a call whose outcome nobody wants.
    ///
    /// # Errors
    /// The call was not accepted.
    pub(crate) fn cast(&self, process: ProcessId, request: Request) -> Result<(), RemoteError> {
        request.check(process, &self.names)?;
        let function = request.function;
        if process == self.me() {
            let reply = Box::new(move |outcome| log(function, process, outcome));
            let invocation = request.here(Wants::Nothing)?;
            self.run_own(function, invocation, Arc::default(), reply);
            return Ok(());
        }
        let found = self.find(process).and_then(|peer| Ok((peer, request.encode()?)));
        dispose(request);
        let (peer, encoded) = found?;
        let call = self.asked.lock().number();
        self.send_call(peer, call, (function, Wants::Nothing, None), encoded, None)
            .map(drop)
    }

    /// Sends a call, with the references in its arguments.
    pub(crate) fn send_call(
        &self,
        peer: Peer,
        call: CallId,
        (function, wants, name): (&FunctionEntry, Wants, Option<CallName>),
        encoded: EncodedArguments,
        kept: Option<Parcel>,
    ) -> Result<u64, RemoteError> {
        let EncodedArguments { body, handles } = encoded;
        let sent = self.references.send(peer, kept, &handles, |parcels| {
            let message = CallMessage::Call {
                call,
                function: function.id(),
                wants,
                name,
                parcels,
            };
            message.letter(body)
        });
        sent.map_err(|error| self.unsaid(error))
    }

    /// The error of a letter with references that was not sent.
    pub(crate) fn unsaid(&self, error: Unsaid) -> RemoteError {
        match error {
            Unsaid::Reference(error) => self.unpassed(error),
            Unsaid::Post(error) => self.unsent(error),
        }
    }

    /// Makes a call whose value stays in the process, and returns the reference to it. Errors are the reference's content.
    pub(crate) fn keep(&self, process: ProcessId, request: Request) -> Arc<Handle> {
        let (function, checked) = (request.function, request.check(process, &self.names));
        if checked.is_ok() && process == self.me() {
            return self.keep_here(request);
        }
        let sent = checked.and_then(|()| self.find(process)).and_then(|peer| {
            let encoded = request.encode()?;
            let (handle, parcel) = self.references.keep(peer).map_err(|error| self.unpassed(error))?;
            let call = self.asked.lock().number();
            self.send_call(peer, call, (function, Wants::Kept, None), encoded, Some(parcel))?;
            Ok(handle)
        });
        dispose(request);
        sent.unwrap_or_else(|error| self.not_kept(function, process, error))
    }

    /// A reference to the failure of a call that was not made.
    pub(crate) fn not_kept(
        &self,
        function: &FunctionEntry,
        process: ProcessId,
        error: RemoteError,
    ) -> Arc<Handle> {
        let handle = self.references.create();
        self.fill(handle.id(), Err(self.kept_nothing(function, process, error)));
        handle
    }

    /// Has a process hold an object without a value. Errors are the reference's content.
    pub(crate) fn unset(&self, process: ProcessId) -> Arc<Handle> {
        if process == self.me() {
            return self.references.create();
        }
        let found = self.find(process).map_err(Failure::from_error);
        let unset = found.and_then(|peer| self.references.unset(peer));
        unset.unwrap_or_else(|failure| {
            let handle = self.references.create();
            self.fill(handle.id(), Err(Arc::new(failure)));
            handle
        })
    }

    fn keep_here(&self, request: Request) -> Arc<Handle> {
        let (function, handle) = (request.function, self.references.create());
        let (id, this) = (handle.id(), self.this.clone());
        let reply = Box::new(move |outcome| {
            if let Some(this) = this.upgrade() {
                this.fill(id, this.content_of(function, outcome));
            }
        });
        match request.here(Wants::Kept) {
            Ok(invocation) => self.run_own(function, invocation, Arc::default(), reply),
            Err(error) => reply(Err(error)),
        }
        handle
    }

    /// Puts the outcome of a function into its place. If nobody holds a reference any more, the value is dropped.
    pub(crate) fn fill(&self, id: RefId, content: Content) {
        let _ = self.references.fill(id, content);
    }

    /// Makes a call to each process: to the others first, and in this process last, so that it delays no other.
    pub(crate) fn ask_everywhere(&self, request: Request) -> Vec<Asking> {
        let peers = self.post.peers();
        let encoded = match peers
            .iter()
            .any(|peer| request.check(peer.process, &self.names).is_ok())
        {
            true => request.encode(),
            false => Ok(EncodedArguments {
                body: Body::EMPTY,
                handles: Vec::new(),
            }),
        };
        let to = |peer: Peer| match (request.check(peer.process, &self.names), &encoded) {
            (Err(error), _) => Asking::failed(peer.process, error),
            (Ok(()), Ok(encoded)) => {
                let (encoded, deadline) = (encoded.clone(), request.deadline);
                self.ask_peer(peer, request.function, encoded, Wants::Value, deadline)
            }
            (Ok(()), Err(error)) => Asking::failed(peer.process, unencoded(error)),
        };
        let mut askings: Vec<Asking> = peers.into_iter().map(to).collect();
        askings.push(self.ask(self.me(), request, Wants::Value));
        askings.sort_by_key(|asking| asking.process);
        askings
    }

    pub(crate) fn find(&self, process: ProcessId) -> Result<Peer, RemoteError> {
        self.post.peer(process).ok_or_else(|| self.missing(process))
    }

    /// The error of a call to a process that does not live.
    fn missing(&self, process: ProcessId) -> RemoteError {
        if let Some(no_link) = self.unreachable.of_process(process) {
            return no_link;
        }
        if self.post.has_lived(process) {
            let (ran, end) = (Ran::Never, self.post.ends().last_end(process));
            return RemoteError::Died { ran, end };
        }
        let worker = NameBook::of_all_runtimes().name(process);
        // The numbers of a job's processes are those of another program.
        if worker.worker().is_some() && !self.post.is_job(self.post.me()) {
            return match self.me() == ProcessId::HEAD {
                true => RemoteError::OtherRuntime { worker },
                false => RemoteError::OfWorker { worker },
            };
        }
        let mut living: Vec<_> = self.post.peers().iter().map(|peer| peer.process).collect();
        living.push(self.me());
        living.sort_unstable();
        RemoteError::NoSuchProcess { living }
    }

    /// The error of a call to a process that has died.
    pub(crate) fn died(&self, peer: Peer, ran: Ran) -> RemoteError {
        let end = self.post.ends().end(peer);
        RemoteError::Died { ran, end }
    }

    /// The error of a call whose references cannot be passed.
    pub(crate) fn unpassed(&self, error: RefError) -> RemoteError {
        match error {
            RefError::Dead(peer) => self.died(peer, Ran::Never),
            RefError::Lost(id) => {
                let owner = self.names.name(id.owner.process);
                let end = self.post.ends().known_end(id.owner);
                RemoteError::Arguments(Failure::from_error(LostArgument { owner, end }).into_report())
            }
            other => RemoteError::Arguments(Failure::from_error(other).into_report()),
        }
    }

    pub(crate) fn unsent(&self, error: PostError) -> RemoteError {
        match error {
            PostError::NoSuchPeer(process) => self.missing(process),
            PostError::Dead(peer) => {
                let no_link = self.unreachable.of(peer);
                no_link.unwrap_or_else(|| self.died(peer, Ran::Never))
            }
            PostError::TooLarge { bytes, limit } => RemoteError::TooLarge { bytes, limit },
            PostError::Full { bytes, limit, .. } => RemoteError::Backlog { bytes, limit },
            PostError::NoLink { why, .. } => RemoteError::NoLink(why),
            PostError::Away(_) => RemoteError::NoLink(error.to_string()),
        }
    }

    fn ask_peer(
        &self,
        peer: Peer,
        function: &'static FunctionEntry,
        encoded: EncodedArguments,
        wants: Wants,
        deadline: Option<Duration>,
    ) -> Asking {
        let (waiter, answer) = Waiter::new(Some(self.post.lead()));
        let call = self.list(peer, &waiter);
        match self.send_call(peer, call, (function, wants, None), encoded, None) {
            Ok(number) => self.asked.lock().sent(call, number),
            Err(error) => {
                self.abandon(call);
                self.settle(&waiter, Err(error));
            }
        }
        self.limited(peer.process, answer, &waiter, deadline)
    }

    fn ask_here(&self, request: Request, wants: Wants) -> Asking {
        let (function, deadline) = (request.function, request.deadline);
        match request.here(wants) {
            Ok(invocation) => self.ask_invoked(function, invocation, deadline),
            Err(error) => Asking::failed(self.me(), error),
        }
    }

    fn ask_invoked(
        &self,
        function: &'static FunctionEntry,
        invocation: Invocation,
        deadline: Option<Duration>,
    ) -> Asking {
        let (waiter, answer) = Waiter::new(None);
        let answering = Arc::clone(&waiter);
        let reply = Box::new(move |outcome| {
            // This thread runs functions, so it may run a waker.
            if let Some(Some(waker)) = answering.answer(outcome) {
                wake(waker);
            }
        });
        self.run_own(function, invocation, Arc::clone(&waiter.cancel), reply);
        self.limited(self.me(), answer, &waiter, deadline)
    }

    fn limited(
        &self,
        process: ProcessId,
        answer: Answer<Result<Returned, CallFault>>,
        waiter: &Arc<Waiter>,
        deadline: Option<Duration>,
    ) -> Asking {
        if let Some(deadline) = deadline {
            self.limit(waiter, deadline);
        }
        Asking {
            process,
            answer,
            cancel: Arc::clone(&waiter.cancel),
        }
    }

    /// Lists a submitted call that is about to be sent. `told` gets its outcome, on any thread; it must not run user code.
    pub(crate) fn begin_submitted(
        &self,
        peer: Peer,
        told: Box<dyn FnOnce(Outcome) + Send>,
    ) -> SubmittedAsking {
        let waiter = Waiter::of_callback(told);
        let call = self.list(peer, &waiter);
        SubmittedAsking { peer, call, waiter }
    }

    /// Sends a submitted call, whose value may stay in the store of the worker's host or comes here.
    pub(crate) fn send_submitted(
        &self,
        asking: &SubmittedAsking,
        (function, may_stay, name): (&'static FunctionEntry, bool, Option<CallName>),
        encoded: EncodedArguments,
    ) {
        let SubmittedAsking { peer, call, waiter } = asking;
        match self.send_call(
            *peer,
            *call,
            (function, Wants::Submitted { may_stay }, name),
            encoded,
            None,
        ) {
            Ok(number) => self.asked.lock().sent(*call, number),
            Err(error) => {
                self.end_submitted(asking);
                self.settle(waiter, Err(error));
            }
        }
    }

    /// Takes a submitted call off the list, which is not sent.
    pub(crate) fn end_submitted(&self, asking: &SubmittedAsking) {
        self.abandon(asking.call);
    }

    /// Lists a call of a peer, whose cancellation is told to the peer.
    fn list(&self, peer: Peer, waiter: &Arc<Waiter>) -> CallId {
        let call = self.asked.lock().ask(peer, Arc::clone(waiter));
        waiter.cancel.sent(SentCall {
            way: self.this.clone(),
            number: call.0,
        });
        call
    }

    /// Takes a call off the list. Returns the peer that was asked.
    fn abandon(&self, call: CallId) -> Option<Peer> {
        let abandoned = self.asked.lock().abandon(call);
        // The waiter is dropped without the lock: the drop may wake a task that awaits the call, and a waker is user code.
        abandoned.map(|(peer, _waiter)| peer)
    }

    /// Has a submitted function of this process run.
    pub(crate) fn run_submitted(
        &self,
        function: &'static FunctionEntry,
        invocation: Invocation,
        cancel: Arc<CallCancel>,
        (scheduled, name): (Scheduled, Option<CallName>),
        reply: Box<dyn FnOnce(Outcome) + Send>,
    ) {
        if let Scheduled::Here(_) = scheduled {
            self.unanswered.note_own(&cancel);
        }
        let references = invocation.handles.iter().map(|handle| handle.id());
        let outer = name.map(|name| OuterCall::new(name, scheduled.letter(), references));
        let current = self.current_of(function.is_async(), scheduled, outer);
        self.run_within(function, invocation, cancel, current, reply);
    }

    /// Has a function of this process run that this process has called itself.
    fn run_own(
        &self,
        function: &'static FunctionEntry,
        invocation: Invocation,
        cancel: Arc<CallCancel>,
        reply: Box<dyn FnOnce(Outcome) + Send>,
    ) {
        self.unanswered.note_own(&cancel);
        self.run(function, invocation, cancel, reply);
    }

    /// Has a function of this process run.
    pub(super) fn run(
        &self,
        function: &'static FunctionEntry,
        invocation: Invocation,
        cancel: Arc<CallCancel>,
        reply: Box<dyn FnOnce(Outcome) + Send>,
    ) {
        let current = self.current(function.is_async());
        self.run_within(function, invocation, cancel, current, reply);
    }

    fn run_within(
        &self,
        function: &'static FunctionEntry,
        invocation: Invocation,
        cancel: Arc<CallCancel>,
        current: Arc<Current>,
        reply: Box<dyn FnOnce(Outcome) + Send>,
    ) {
        if self.is_only_head {
            // Arguments may be user code's.
            self.do_soon(move || dispose(invocation));
            return reply(Err(RemoteError::OnlyHead));
        }
        self.start(RemoteJob {
            function,
            invocation,
            cancel,
            current,
            init: self.init,
            reply,
        });
    }

    /// Says something about a call to the process that has it.
    pub(crate) fn say_of_call(&self, peer: Peer, message: &CallMessage) {
        // A peer that is dead has nothing of the call, and its death is told. One that takes no letter in time does its work in vain.
        let _ = self.post.send(peer, message.letter(Body::EMPTY));
    }
}

impl Recall for Remote {
    /// Tells the peer that nobody wants the answer of a call.
    fn recall(&self, number: u64) {
        let call = CallId(number);
        if let Some(peer) = self.abandon(call) {
            self.say_of_call(peer, &CallMessage::Cancel { call });
        }
    }
}

/// Another copy of the error of arguments that could not be encoded.
fn unencoded(error: &RemoteError) -> RemoteError {
    match error {
        RemoteError::Arguments(report) => RemoteError::Arguments(report.clone()),
        _ => RemoteError::Failed(Failure::Internal("arguments without bytes".to_owned())),
    }
}

/// Reports the error of a cast where the function has run.
pub(super) fn log(function: &FunctionEntry, process: ProcessId, outcome: Outcome) {
    if let Err(error) = outcome {
        // Nobody may read it any more.
        let _ = writeln!(
            io::stderr(),
            "selvedge: `{}`, cast to {process}: {error}",
            function.path
        );
    }
}
