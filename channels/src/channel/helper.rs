//! The thread that sleeps on an end's doorbell while a task awaits it. Started with the first future that has to wait,
//! asleep on a condition variable while none does, and ended with the end.
//!
//! - `HELP-1` a task announces sleep on the bell itself, and looks once more, before it arms the helper: so the helper
//!   need not know what the task waits for.
//! - `HELP-2` one sleeper a bell: an end waits for its helper to be idle before it sleeps on the bell itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::dispose::dispose;
use crate::doorbell::Doorbell;

#[derive(Debug, Default)]
struct State {
    /// Whom to wake when the bell rings.
    armed: Option<Waker>,
    /// The helper is asleep on the bell, or about to be.
    busy: bool,
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    bell: Doorbell,
    state: Mutex<State>,
    changed: Condvar,
}

/// The helper of one end.
#[derive(Debug)]
pub(super) struct Helper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(super) fn start(bell: Doorbell) -> io::Result<Self> {
        let shared = Arc::new(Shared {
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
        })
    }

    /// Wakes `waker` when the bell rings, on which sleep has been announced (`HELP-1`).
    pub(super) fn arm(&self, waker: &Waker) {
        let mut state = self.shared.state.lock();
        state.armed = Some(waker.clone());
        state.busy = true;
        self.shared.changed.notify_all();
    }

    /// Nobody awaits any more; the bell is free (`HELP-2`).
    pub(super) fn disarm(&self) {
        let mut state = self.shared.state.lock();
        if !state.busy {
            return;
        }
        state.armed = None;
        self.shared.bell.rouse();
        while state.busy {
            // It comes at once: there is nobody it waits for.
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
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

fn help(shared: &Shared) {
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
            // A user's, who may panic: the next task has this thread as well.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                dispose(payload);
            }
            state = shared.state.lock();
        }
    }
}
