//! Cancellation: handles that are dropped without their result.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::run::driver::Driver;
use crate::run::engine::Engine;

impl Engine {
    /// Closes a handle that was dropped without its result. Never blocks: if another thread holds the driver, that thread closes the
    /// handle when it lets the driver go or at its next pump, and the doorbell makes a waiting thread pump at once.
    pub(crate) fn discard(&self, execution: u64, leaves: Range<usize>) {
        self.discarded.lock().push((execution, leaves));
        // Relaxed: the lock orders the pushed entries; a pump that sees the flag late comes again.
        self.any_discarded.store(true, Ordering::Relaxed);
        if self
            .driver
            .try_with(|driver| self.close_discarded(driver))
            .is_err()
        {
            self.bell.ring();
        }
    }

    /// Closes the handles that were dropped while this thread held the driver, which it has let go. Another thread may hold it again
    /// by now, and looks too.
    #[inline]
    pub(super) fn close_missed(&self) {
        // Relaxed: a handle that is dropped while the driver is let go, and that neither thread sees, is closed at the next use.
        if self.any_discarded.load(Ordering::Relaxed) {
            let _ = self.driver.try_with(|driver| self.close_discarded(driver));
        }
    }

    /// Closes the dropped handles; `true` if there were any.
    #[inline]
    pub(super) fn close_discarded(&self, driver: &mut Driver) -> bool {
        // Relaxed: the lock of `discarded` orders the entries; a flag that is seen late is seen by the next pump, which
        // the doorbell brings.
        if !self.any_discarded.load(Ordering::Relaxed) {
            return false;
        }
        // Cleared before the entries are taken: a later push sets the flag again. AcqRel: no entry is taken before the
        // flag is cleared, so a push that this loop misses is flagged.
        self.any_discarded.swap(false, Ordering::AcqRel);
        while let Some((execution, leaves)) = self.pop_discarded() {
            if driver.close(execution, &leaves) {
                self.cancel(execution);
            }
        }
        true
    }

    /// Cancels the tasks of an execution that have not started, and drops its async methods where they await.
    pub(crate) fn cancel(&self, execution: u64) {
        self.control.cancel(execution);
        if let Some(joint) = &self.joint {
            joint.cancel(execution);
        }
        self.interrupt();
    }

    /// Makes awaiting async methods check again whether they are still wanted. The control blocks of other hosts come first:
    /// letters arrive in order, so a method that is told to look finds the change there.
    pub(crate) fn interrupt(&self) {
        if let Some(joint) = self.joint.as_ref().filter(|_| !self.control.is_running()) {
            joint.stop();
        }
        if self.control.is_awaiting() || self.joint.is_some() {
            self.inline.look_again();
            self.lease.wake_async();
        }
    }

    fn pop_discarded(&self) -> Option<(u64, Range<usize>)> {
        self.discarded.lock().pop()
    }
}
