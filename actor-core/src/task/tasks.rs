//! The submitted calls of a process: events come in on any thread, and one thread after the other steps the board.
//!
//! Whoever has an event puts it into the inbox. If no other thread is at it, the thread takes all events that are there, one after the
//! other: it steps the board under its lock, and then does what has to be done, without the lock. So effects happen in the order of
//! the events, whatever they cause by themselves, and nothing recurses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;

use super::board::{BlockedCall, Board, NewTask, TaskEvent};
use crate::hub::delivering::delivering;
use crate::process_name::NameBook;
use crate::reference::content::{LostCopy, ObjectValue};
use crate::remote::calls::CallId;
use crate::schedule::Resources;

/// The service that has calls sent and run.
pub(crate) trait TaskHost: Send + Sync {
    /// Steps the board, and does what has to be done in consequence.
    fn serve(&self, tasks: &Arc<Tasks>, event: TaskEvent);
}

/// The submitted calls of a process.
pub(crate) struct Tasks {
    pub(super) me: Peer,
    host: Weak<dyn TaskHost>,
    pub(super) board: Mutex<Board>,
    inbox: Mutex<Inbox>,
    /// The number of calls that the program has submitted.
    submitted: AtomicU64,
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<TaskEvent>,
    /// Whether a thread is at it.
    is_served: bool,
    /// Whether the process has ever scheduled: before that, the end of an object is nobody's business here.
    is_used: bool,
}

impl Tasks {
    /// The calls of a process, which is the worker itself if there is no other one and it `takes_work`.
    pub(crate) fn new(
        (me, names): (Peer, Arc<NameBook>),
        takes_work: bool,
        host: Weak<dyn TaskHost>,
    ) -> Arc<Self> {
        let mut board = Board::new(me, names);
        board.takes_work = takes_work;
        Arc::new(Tasks {
            me,
            host,
            board: Mutex::new(board),
            inbox: Mutex::default(),
            submitted: AtomicU64::new(0),
        })
    }

    /// The place of the next call among those of the program.
    pub(super) fn next_index(&self) -> u64 {
        // Relaxed: the places only have to differ.
        self.submitted.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets the bytes of specs that are kept of calls that have ended.
    pub(super) fn limit_lineage(&self, bytes: usize) {
        self.board.lock().lineage.limit(bytes);
    }

    /// Submits a call to this process.
    pub(super) fn submit(self: &Arc<Self>, new: NewTask) {
        self.inbox.lock().is_used = true;
        self.event(TaskEvent::Submitted(Box::new(new)));
    }

    /// An object of this process was freed.
    pub(crate) fn freed(self: &Arc<Self>, object: RefId) {
        if self.is_used() {
            self.event(TaskEvent::Freed(object));
        }
    }

    /// The last copy of an object of this process is lost.
    pub(crate) fn lost(self: &Arc<Self>, object: RefId, value: ObjectValue, copy: LostCopy) {
        self.event(TaskEvent::Lost { object, value, copy });
    }

    fn is_used(&self) -> bool {
        self.inbox.lock().is_used
    }

    /// A process has joined, where a call that waits for room may start; or one was told to end, where no other call starts.
    pub(crate) fn workers_changed(self: &Arc<Self>) {
        if self.is_used() {
            self.event(TaskEvent::WorkersChanged);
        }
    }

    /// A process is dead. The calls that it had are told one by one, by their answers.
    pub(crate) fn worker_died(self: &Arc<Self>, worker: Peer) {
        if self.is_used() {
            self.event(TaskEvent::WorkerDied(worker));
        }
    }

    /// A job has ended, and the calls with it that it has submitted.
    pub(crate) fn job_ended(self: &Arc<Self>, job: Peer) {
        self.event(TaskEvent::JobEnded(job));
    }

    /// A call of this process waits, or goes on.
    pub(crate) fn blocked(self: &Arc<Self>, call: u64, is_blocked: bool) {
        let by = BlockedCall::Here(call);
        self.event(TaskEvent::Blocked { by, is_blocked });
    }

    /// A call waits at another process, or goes on there.
    pub(crate) fn blocked_at(self: &Arc<Self>, worker: Peer, call: CallId, is_blocked: bool) {
        let by = BlockedCall::At(worker, call);
        self.event(TaskEvent::Blocked { by, is_blocked });
    }

    /// Cancels the call that makes an object of this process, if it has not ended.
    pub(super) fn cancel(self: &Arc<Self>, object: RefId) {
        self.event(TaskEvent::Cancelled(object));
    }

    /// Says what a worker offers.
    pub(super) fn offer(self: &Arc<Self>, worker: Peer, offers: Resources) {
        self.inbox.lock().is_used = true;
        self.event(TaskEvent::Offers(worker, offers));
    }

    pub(super) fn event(self: &Arc<Self>, event: TaskEvent) {
        let mut inbox = self.inbox.lock();
        inbox.events.push_back(event);
        if inbox.is_served {
            return;
        }
        inbox.is_served = true;
        while let Some(event) = inbox.events.pop_front() {
            drop(inbox);
            // As a letter is delivered: user code goes to threads of its own.
            delivering(|| self.serve(event));
            inbox = self.inbox.lock();
        }
        inbox.is_served = false;
    }

    fn serve(self: &Arc<Self>, event: TaskEvent) {
        if let Some(host) = self.host.upgrade() {
            host.serve(self, event);
        }
    }
}
