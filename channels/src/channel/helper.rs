//! Helpers: the thread that sleeps on an endpoint's doorbell while an async task awaits the endpoint. The first future
//! that has to wait starts it. It sleeps on a condition variable while no future waits, and ends with the endpoint.
//!
//! - `HELP-1` the task itself announces sleep on the bell, and checks its condition once more, before it arms the
//!   helper. So the helper need not know the condition.
//! - `HELP-2` a bell has one sleeper: an endpoint waits for its helper to be idle before it sleeps on the bell itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::dispose::dispose;
use crate::memory::made_in::MadeIn;
use crate::wait::doorbell::Doorbell;

#[derive(Debug, Default)]
struct HelperState {
    /// The waker to call when the bell rings.
    armed: Option<Waker>,
    /// True while the helper is asleep on the bell, or about to be.
    busy: bool,
    ended: bool,
}

#[derive(Debug)]
struct HelperShared {
    bell: Doorbell,
    state: Mutex<HelperState>,
    changed: Condvar,
}

/// The helper of one endpoint.
#[derive(Debug)]
pub(super) struct Helper {
    shared: Arc<HelperShared>,
    thread: Option<JoinHandle<()>>,
    made_in: MadeIn,
}

impl Helper {
    pub(super) fn start(bell: Doorbell) -> io::Result<Self> {
        let shared = Arc::new(HelperShared {
            bell,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let helps = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("selvedge-await".into())
            .spawn(move || help(&helps))?;
        Ok(Helper {
            shared,
            thread: Some(thread),
            made_in: MadeIn::here(),
        })
    }

    /// Makes the helper call `waker` when the bell rings. Sleep has been announced on the bell before (`HELP-1`).
    pub(super) fn arm(&self, waker: &Waker) {
        let mut state = self.shared.state.lock();
        state.armed = Some(waker.clone());
        state.busy = true;
        self.shared.changed.notify_all();
    }

    /// Cancels the armed waker and waits until the helper has left the bell, which is free then (`HELP-2`).
    pub(super) fn disarm(&self) {
        let mut state = self.shared.state.lock();
        if !state.busy {
            return;
        }
        state.armed = None;
        self.shared.bell.rouse();
        while state.busy {
            // The helper becomes idle at once, because it waits for nothing else.
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if !self.made_in.is_here() {
            // A forked child has no such thread, which could neither leave the bell nor be joined.
            return std::mem::forget(self.thread.take());
        }
        self.disarm();
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn help(shared: &HelperShared) {
    let mut state = shared.state.lock();
    loop {
        if state.ended {
            return;
        }
        if !state.busy {
            shared.changed.wait(&mut state);
            continue;
        }
        drop(state);
        shared.bell.sleep();
        state = shared.state.lock();
        state.busy = false;
        let due = state.armed.take();
        shared.changed.notify_all();
        if let Some(waker) = due {
            drop(state);
            // A waker is user code and may panic. The panic is caught, because later tasks need this thread.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                dispose(payload);
            }
            state = shared.state.lock();
        }
    }
}
