//! The berth of a joint: whoever rings its doorbell does at once what the joint's thread would do, if that is short.
//!
//! A lane that has written a message sends it on its own thread, as a program does that writes to a socket itself. The joint's
//! thread sleeps on meanwhile. It is woken for what may take long: long messages, messages that found no slot, shares of
//! collectives, news, and the end of the graph.
//!
//! - `BERTH-1` one thread at a time uses the near ends. A thread that finds them in use leaves a mark, and whoever uses them looks
//!   again after it has left them, so no message stays behind.
//! - `BERTH-2` whoever uses the near ends announces sleep first, in the place of the joint's thread. So a message that is published
//!   after the look rings again.
//! - `BERTH-3` a flag that says that the thread is needed, and that the thread clears before its look, is set again before the thread looks
//!   for the last time. So who rings meanwhile sees the flag, or the thread sees what was rung for.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use selvedge_channels::Berth;

use super::joint::Joint;

/// The number of looks that one ring causes at most; the joint's thread goes on.
const LOOKS_MAX: usize = 8;

/// The length in bytes of the longest message that is sent by whoever rings.
pub(super) const SENT_AT_ONCE_MAX: usize = 64 << 10;

/// The berth of a joint.
#[derive(Default)]
pub(crate) struct JointBerth {
    joint: OnceLock<Weak<Joint>>,
    /// Whether somebody has rung while another thread used the near ends.
    is_rung: AtomicBool,
    /// Whether the joint's thread is called.
    is_called: Mutex<bool>,
    called: Condvar,
}

impl JointBerth {
    /// Sets the joint, before its thread sleeps.
    pub(super) fn belongs_to(&self, joint: &Arc<Joint>) {
        // A berth has one joint.
        let _ = self.joint.set(Arc::downgrade(joint));
    }

    /// Whether somebody has rung while the joint's thread used the near ends, which it has left.
    pub(super) fn was_rung(&self) -> bool {
        // SYNC berth-rung: as in `act`.
        fence(Ordering::SeqCst);
        self.is_rung.swap(false, Ordering::SeqCst)
    }

    /// Ends the sleep of the joint's thread.
    pub(super) fn call(&self) {
        *self.is_called.lock() = true;
        self.called.notify_one();
    }

    /// Does what is short; returns whether the joint's thread has to be called.
    fn act(&self, joint: &Joint) -> bool {
        // SYNC berth-rung: the fence orders the mark before the attempt, and the one below orders the end of a use before the look at
        // the mark. So whoever uses the near ends sees the mark, or this thread may use them.
        self.is_rung.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for _ in 0..LOOKS_MAX {
            let Some(mut near) = joint.near.try_lock() else {
                return false;
            };
            self.is_rung.swap(false, Ordering::SeqCst);
            // BERTH-2.
            joint.bell.announce();
            if joint.needs_thread() {
                return true;
            }
            let sent = near.send(joint, SENT_AT_ONCE_MAX);
            drop(near);
            if sent.is_left {
                return true;
            }
            fence(Ordering::SeqCst);
            if !self.is_rung.load(Ordering::SeqCst) {
                return false;
            }
        }
        true
    }
}

impl Berth for JointBerth {
    fn sleep(&self, deadline: Option<Instant>, _: &dyn Fn() -> bool) {
        let mut is_called = self.is_called.lock();
        while !*is_called {
            match deadline {
                None => self.called.wait(&mut is_called),
                Some(deadline) if self.called.wait_until(&mut is_called, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        *is_called = false;
    }

    fn wake(&self) {
        let joint = self.joint.get().and_then(Weak::upgrade);
        if joint.is_none_or(|joint| self.act(&joint)) {
            self.call();
        }
    }
}
