//! The service of calls: what this process asks of others, and what others ask of it.
//!
//! The service sends and receives letters, and steps the table of calls. It runs no user code on the thread that brings a
//! letter: functions run on the executor or the async thread, values are decoded by who waits for them, and wakers are
//! woken on a thread of their own.
//!
//! This file has the service itself, its start and its end; `asking` has the caller's side, and `serving` the other.

use std::any::Any;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_cluster::frame::Service;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::channel::CHANNELS;
use selvedge_objects::refs::REFERENCES;

use crate::call::remote_error::RemoteError;
use crate::cancel::CallCancel;
use crate::current::{Current, OwnThread, Place};
use crate::errand::errand_or;
use crate::failure::wake;
use crate::hub::lead::Lead;
use crate::hub::post::{Post, Receiver};
use crate::hub::{LinkTraffic, ServiceTraffic};
use crate::lease::correspondence::{Correspondences, PROGRAMS};
use crate::naming::message::NAMES;
use crate::naming::service::Naming;
use crate::process_name::NameBook;
use crate::reference::fetch::FETCHES;
use crate::reference::references::{Helpers, References};
use crate::remote::async_thread::{AsyncPlace, AsyncThread};
use crate::remote::calls::{Asked, Served};
use crate::remote::executor::{Executor, WorkRefusal};
use crate::remote::init::{OF_PROCESS, WorkerInit};
use crate::remote::interrupt::UnansweredCalls;
use crate::remote::job::RemoteJob;
use crate::remote::message::{CALLS, CallMessage};
use crate::remote::piece::{Piece, RemoteHelpers};
use crate::remote::threads::Threads;
use crate::remote::unreachable::Unreachable;
use crate::remote::waiter::{Outcome, Waiter};
use crate::remote_channel::service::RemoteChannels;
use crate::store::message::{STORES, TRANSFERS};
use crate::store::stores::Stores;
use crate::task::tasks::{TaskHost, Tasks};

/// The service of calls of one process.
pub(crate) struct Remote {
    pub(crate) post: Arc<dyn Post>,
    pub(crate) asked: Mutex<Asked<Arc<Waiter>>>,
    pub(super) served: Mutex<Served<Arc<CallCancel>>>,
    pub(crate) references: Arc<References>,
    pub(crate) stores: Arc<Stores>,
    pub(super) channels: Arc<RemoteChannels>,
    naming: Arc<Naming>,
    /// The letters between the programs of graphs over several hosts.
    pub(crate) correspondences: Arc<Correspondences>,
    pub(super) unanswered: UnansweredCalls,
    /// The submitted calls of this process.
    pub(super) tasks: Arc<Tasks>,
    /// The processes that this one cannot reach.
    pub(crate) unreachable: Unreachable,
    /// The names of processes in errors.
    pub(crate) names: Arc<NameBook>,
    /// The number of the worker that the runtime has chosen last.
    pub(super) turn: AtomicU32,
    pub(super) init: &'static WorkerInit,
    /// The service itself, for callbacks.
    pub(crate) this: Weak<Remote>,
    threads: Threads,
    pub(super) executor: Executor<Piece>,
    functions: AsyncThread,
    /// Values that are awaited for objects.
    pub(super) results: AsyncThread,
    /// Deadlines, and the wakers of callers.
    background: Arc<AsyncThread>,
    owner: OnceLock<Arc<dyn Any + Send + Sync>>,
    currents: OnceLock<Currents>,
    /// Whether this process is only a head, which runs no function.
    pub(super) is_only_head: bool,
    /// Whether this process ends, and its runtime goes on.
    pub(super) is_ending: AtomicBool,
}

/// The surroundings of blocking functions, of async ones, and of actors.
struct Currents {
    blocking: Arc<Current>,
    overlapping: Arc<Current>,
    of_actors: Arc<Current>,
}

impl Remote {
    /// Creates the service of this process. Nothing is started before the first call needs it.
    pub(crate) fn new(post: Arc<dyn Post>) -> Arc<Self> {
        Self::with_init(post, &OF_PROCESS)
    }

    /// Creates the service of a process with an initialisation of its own, for tests with several in one.
    pub(crate) fn with_init(post: Arc<dyn Post>, init: &'static WorkerInit) -> Arc<Self> {
        let threads = Threads::default();
        let background = Arc::new(AsyncThread::new("selvedge-deadlines", &threads));
        let executor = Executor::new(&threads, post.lead());
        let helpers: Arc<dyn Helpers> = Arc::new(RemoteHelpers::new(&executor, &background));
        let started = Instant::now();
        let clock = Box::new(move || started.elapsed());
        let references = References::new(Arc::clone(&post), Arc::clone(&helpers), clock);
        let wakers = Arc::clone(&helpers);
        let wake = Arc::new(move |waker| wakers.wake(waker));
        let stores = Stores::new(Arc::clone(&post), &threads, wake);
        references.set_stores(&stores);
        let channels = RemoteChannels::new(Arc::clone(&post), &references, helpers);
        let naming = Naming::new(Arc::clone(&post), &references);
        let correspondences = Correspondences::new(Arc::clone(&post));
        let is_only_head = post.me().process == ProcessId::HEAD && post.is_job(post.me());
        let named = (post.me(), post.names());
        let remote = Arc::new_cyclic(|this| Remote {
            is_only_head,
            is_ending: AtomicBool::new(false),
            tasks: Tasks::new(named, !is_only_head, Weak::clone(this) as Weak<dyn TaskHost>),
            names: post.names(),
            post,
            correspondences,
            references,
            stores,
            asked: Mutex::default(),
            served: Mutex::default(),
            unanswered: UnansweredCalls::default(),
            unreachable: Unreachable::default(),
            turn: AtomicU32::new(ProcessId::HEAD.number()),
            init,
            this: Weak::clone(this),
            executor,
            functions: AsyncThread::new("selvedge-remote-async", &threads),
            results: AsyncThread::new("selvedge-results", &threads),
            background,
            channels,
            naming,
            threads,
            owner: OnceLock::new(),
            currents: OnceLock::new(),
        });
        let tasks = Arc::downgrade(&remote.tasks);
        remote.references.on_freed(Box::new(move |id| {
            if let Some(tasks) = tasks.upgrade() {
                tasks.freed(id);
            }
        }));
        let tasks = Arc::downgrade(&remote.tasks);
        remote.references.on_lost(Box::new(move |id, value, copy| {
            if let Some(tasks) = tasks.upgrade() {
                tasks.lost(id, value, copy);
            }
        }));
        let references = Arc::downgrade(&remote.references);
        remote.stores.on_lost(Box::new(move |id, name| {
            if let Some(references) = references.upgrade() {
                references.lost_everywhere(id, name);
            }
        }));
        remote
    }

    /// The submitted calls of this process.
    pub(crate) fn tasks(&self) -> &Arc<Tasks> {
        &self.tasks
    }

    /// The service itself, for callbacks.
    pub(crate) fn this(&self) -> Weak<Remote> {
        Weak::clone(&self.this)
    }

    /// Runs a future soon, on a thread that may run user code.
    ///
    /// # Errors
    /// [`WorkRefusal::NoThread`]: the future is dropped.
    pub(crate) fn in_background<F: Future<Output = ()> + 'static>(
        &self,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> Result<(), WorkRefusal> {
        self.background.get().map(|queue| queue.spawn(start))
    }

    /// Does something soon, on a thread that may run user code.
    pub(crate) fn do_soon(&self, errand: impl FnOnce() + Send + 'static) {
        self.references.do_soon(Box::new(errand));
    }

    /// Does something with a value soon, on a thread that may run user code. If no such thread takes it, `otherwise` gets the value.
    pub(crate) fn do_soon_or<T: Send + 'static>(
        &self,
        value: T,
        work: impl FnOnce(T) + Send + 'static,
        otherwise: impl FnOnce(T) + Send + 'static,
    ) {
        self.references.do_soon(errand_or(value, work, otherwise));
    }

    /// The service as the receiver of letters about calls, fetches, references and channels.
    pub(crate) fn receiver(self: &Arc<Self>) -> Arc<dyn Receiver> {
        Arc::clone(self) as Arc<dyn Receiver>
    }

    /// The service of channels.
    pub(crate) fn channels(&self) -> &RemoteChannels {
        &self.channels
    }

    /// The service of names.
    pub(crate) fn naming(&self) -> &Naming {
        &self.naming
    }

    /// The runtime that functions find by `Runtime::current`.
    pub(crate) fn owner(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.owner.get()
    }

    /// Sets the runtime that functions find by `Runtime::current`. Later calls have no effect.
    pub(crate) fn set_owner(&self, owner: Arc<dyn Any + Send + Sync>) {
        let _ = self.owner.set(owner);
    }

    fn currents(&self) -> &Currents {
        self.currents.get_or_init(|| {
            let owner = self.owner.get().map_or_else(|| Arc::new(()) as _, Arc::clone);
            let current = |place: Arc<dyn Place>| {
                let owner = Arc::clone(&owner);
                let outer = None;
                Arc::new(Current { owner, place, outer })
            };
            Currents {
                blocking: current(Arc::new(self.executor.clone())),
                overlapping: current(Arc::new(AsyncPlace)),
                of_actors: current(Arc::new(OwnThread::default())),
            }
        })
    }

    /// The surroundings of a function.
    pub(crate) fn current(&self, is_async: bool) -> Arc<Current> {
        let currents = self.currents();
        Arc::clone(if is_async {
            &currents.overlapping
        } else {
            &currents.blocking
        })
    }

    /// The surroundings of actors on threads of their own.
    pub(crate) fn current_of_actors(&self) -> Arc<Current> {
        Arc::clone(&self.currents().of_actors)
    }

    /// The lead of those that wait for letters.
    pub(crate) fn lead(&self) -> Arc<Lead> {
        self.post.lead()
    }

    /// The traffic of all links.
    pub(super) fn traffic(&self) -> Vec<LinkTraffic> {
        let entries = self.post.traffic().into_iter();
        let named = |(peer, service, counts): (Peer, Service, ServiceTraffic)| LinkTraffic {
            process: peer.process.number(),
            service: name_of(service),
            counts,
        };
        entries.map(named).collect()
    }

    /// Has a function run.
    pub(super) fn start(&self, job: RemoteJob) {
        if !job.function.is_async() {
            return self.executor.submit(Piece::Job(job));
        }
        match self.functions.get() {
            Ok(queue) => queue.spawn(move || job.run_async()),
            Err(refusal) => job.refuse(refusal),
        }
    }

    /// Answers a waiter, on a thread that must not run user code.
    pub(super) fn settle(&self, waiter: &Waiter, outcome: Outcome) {
        if let Some(Some(waker)) = waiter.answer(outcome) {
            self.background.wake(waker);
        }
    }

    /// Ends the call at its deadline.
    pub(super) fn limit(&self, waiter: &Arc<Waiter>, deadline: Duration) {
        let Some(until) = tokio::time::Instant::now().checked_add(deadline) else {
            return;
        };
        let Some(answered) = waiter.answered() else { return };
        let queue = match self.background.get() {
            Ok(queue) => queue,
            Err(refusal) => {
                waiter.cancel.cancel();
                return self.settle(waiter, Err(refusal.into()));
            }
        };
        let waiter = Arc::clone(waiter);
        queue.spawn(move || async move {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {
                    if let Some(Some(waker)) = waiter.expire(deadline) {
                        wake(waker);
                    }
                }
                _ = answered => {}
            }
        });
    }

    /// The process ends, and its runtime goes on: interrupts the functions that run. Those that have not begun are left to whoever
    /// announces the end of the process. Returns whether all functions have ended by the deadline.
    pub(crate) fn end_functions(&self, deadline: Instant) -> bool {
        // Relaxed: whoever refuses a function has seen, under a lock, that its executor or thread was stopped.
        self.is_ending.store(true, Ordering::Relaxed);
        self.interrupt();
        self.stop_functions();
        self.background.stop();
        self.executor.end_refusals();
        self.wait_for_threads(deadline)
    }

    /// Ends the threads of functions after their present work, and refuses all other work.
    fn stop_functions(&self) {
        self.executor.stop();
        self.functions.stop();
        self.results.stop();
    }

    /// Returns whether the threads have ended by the deadline, after [`stop`](Self::stop).
    pub(crate) fn wait_for_threads(&self, deadline: Instant) -> bool {
        self.threads.wait_until(deadline)
    }

    /// Refuses all calls and waits from now on, and those that are under way. A function that runs, here or elsewhere, is asked to end
    /// by its token.
    pub(crate) fn stop(&self) {
        // Before the references, which they hold.
        self.naming.stop();
        self.references.stop();
        self.stores.stop();
        self.channels.stop();
        self.stop_functions();
        let asked = self.asked.lock().take_all();
        for (call, peer, waiter) in asked {
            self.say_of_call(peer, &CallMessage::Cancel { call });
            self.settle(&waiter, Err(RemoteError::Shutdown));
        }
        self.cancel_all();
        self.background.stop();
        self.executor.end_refusals();
    }

    /// The number of calls that wait for answers of others, and of calls of others that run.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> (usize, usize) {
        (self.asked.lock().len(), self.served.lock().len())
    }

    /// The number of threads.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }
}

fn name_of(service: Service) -> &'static str {
    match service {
        CALLS => "calls",
        FETCHES => "fetches",
        REFERENCES => "references",
        CHANNELS => "channels",
        STORES => "stores",
        TRANSFERS => "transfers",
        NAMES => "names",
        PROGRAMS => "graphs",
        Service::SESSION => "acknowledgements",
        _ => "others",
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stop();
    }
}
