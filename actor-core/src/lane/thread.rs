//! A lane's thread: started once, stopped once, waited for with a deadline.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::id::LaneId;
use crate::lane::host::LaneState;
use crate::lane::mailbox::{LaneMessage, Mailbox};

/// A running lane. Dropping it neither stops nor waits for the thread: [`LaneThread::stop`] does the one,
/// [`LaneThread::join_until`] the other.
pub(crate) struct LaneThread {
    id: LaneId,
    name: String,
    mailbox: Arc<Mailbox>,
    ended: Arc<Ended>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// Told on a lane's thread when it has ended.
pub(crate) type OnEnd = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Ended {
    /// Who is to be told, until it has ended.
    state: Mutex<EndState>,
    changed: Condvar,
}

#[derive(Default)]
struct EndState {
    ended: bool,
    waiting: Vec<OnEnd>,
}

impl LaneThread {
    /// Starts the thread, named "lane <name>".
    pub(crate) fn start(id: LaneId, name: &str) -> io::Result<Arc<Self>> {
        let mailbox = Arc::new(Mailbox::default());
        let ended = Arc::new(Ended::default());
        let run = {
            let mailbox = Arc::clone(&mailbox);
            let ended = Arc::clone(&ended);
            move || live(id, &mailbox, &ended)
        };
        // A NUL in a thread's name is refused by the system call behind it.
        let thread_name = format!("lane {name}").replace('\0', "?");
        let handle = thread::Builder::new().name(thread_name).spawn(run)?;
        Ok(Arc::new(Self {
            id,
            name: name.to_owned(),
            mailbox,
            ended,
            handle: Mutex::new(Some(handle)),
        }))
    }

    pub(crate) fn id(&self) -> LaneId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Queues a message; it comes back when the lane has ended.
    pub(crate) fn push(&self, message: LaneMessage) -> Result<(), LaneMessage> {
        self.mailbox.push(message)
    }

    /// Has an async method that the lane's program awaits look again whether it is wanted.
    pub(crate) fn rouse(&self) {
        self.mailbox.rouse();
    }

    /// Asks the lane to end after the messages before this one and after the program it runs.
    pub(crate) fn stop(&self) {
        // Handed back only by a lane that has ended, which is what is asked for.
        let _ = self.mailbox.push(LaneMessage::Stop);
    }

    /// Gives the lane up: nothing reaches it any more and waiting calls are answered by broken promises. Its
    /// thread ends when whatever holds it comes back.
    pub(crate) fn abandon(&self) {
        self.mailbox.close();
    }

    /// Has `on_end` told when the lane has ended; here and now where it has.
    pub(crate) fn when_ended(&self, on_end: OnEnd) {
        let mut state = self.ended.state.lock();
        if state.ended {
            drop(state);
            return on_end();
        }
        state.waiting.push(on_end);
    }

    /// Waits for the thread's end. `false`: the deadline passed first (or this is the lane's own thread), and the
    /// thread is left behind.
    pub(crate) fn join_until(&self, deadline: Instant) -> bool {
        let mut handle = self.handle.lock();
        if handle
            .as_ref()
            .is_some_and(|handle| handle.thread().id() == thread::current().id())
        {
            return false;
        }
        let mut state = self.ended.state.lock();
        while !state.ended {
            if self.ended.changed.wait_until(&mut state, deadline).timed_out() && !state.ended {
                return false;
            }
        }
        drop(state);
        if let Some(handle) = handle.take() {
            // The thread has only to return now; a panic in it was caught and has nothing to add.
            let _ = handle.join();
        }
        true
    }
}

fn live(id: LaneId, mailbox: &Arc<Mailbox>, ended: &Ended) {
    // User code is guarded where it is called; this guard is for bugs of ours: the end must be announced.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut state = LaneState::new(id, Arc::clone(mailbox));
        state.run();
    }));
    mailbox.close();
    let waiting = {
        let mut state = ended.state.lock();
        state.ended = true;
        std::mem::take(&mut state.waiting)
    };
    ended.changed.notify_all();
    waiting.into_iter().for_each(|on_end| on_end());
}
