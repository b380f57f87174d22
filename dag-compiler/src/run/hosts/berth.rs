//! The berth of a joint: whoever rings its doorbell does at once what the joint's thread would do, if that is short.
//!
//! A lane that has written a message sends it on its own thread, as a program does that writes to a socket itself. The joint's
//! thread sleeps on meanwhile. It is woken for what may take long: long messages, messages that found no slot, shares of
//! collectives, news, and the end of the graph.
//!
//! - `BERTH-1` one thread at a time has the near ends in hand, and looks again for others that have rung (`OnBehalf`).
//! - `BERTH-2` whoever uses the near ends announces sleep first, in the place of the joint's thread. So a message that is published
//!   after the look rings again.
//! - `BERTH-3` that messages wait for a slot of a mirror is a `Summons`: whoever frees the slot sees it, or the thread sees the slot.

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

    /// Ends the sleep of the joint's thread.
    pub(super) fn call(&self) {
        *self.is_called.lock() = true;
        self.called.notify_one();
    }

    /// Does what is short; returns whether the joint's thread has to be called.
    fn act(&self, joint: &Joint) -> bool {
        joint.near.ring(LOOKS_MAX, |near| {
            // BERTH-2.
            joint.bell.announce();
            joint.needs_thread() || near.send(joint, SENT_AT_ONCE_MAX).is_left
        })
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
