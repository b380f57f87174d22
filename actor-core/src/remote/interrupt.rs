//! The interruption of all functions that other processes have called here.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cancel::CallCancel;
use crate::remote::service::Remote;

/// The tokens of functions for whose answer no process waits: those whose value stays here, and casts.
#[derive(Default)]
pub(super) struct UnansweredCalls(Mutex<Vec<Weak<CallCancel>>>);

impl UnansweredCalls {
    /// Notes a function that is to run, and forgets those that have ended. Each call forgets as many as it notes, on average.
    pub(super) fn note(&self, cancel: &Arc<CallCancel>) {
        let mut calls = self.0.lock();
        if calls.len() == calls.capacity() {
            calls.retain(|call| call.strong_count() > 0);
            // Room for as many more as are left.
            let more = calls.len().max(8);
            calls.reserve_exact(more);
        }
        calls.push(Arc::downgrade(cancel));
    }

    fn take(&self) -> Vec<Weak<CallCancel>> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Remote {
    /// Interrupts the functions that other processes have called and that have not ended: each is cancelled, and its outcome goes to
    /// whoever has called it. Later calls are not concerned.
    pub(crate) fn interrupt(&self) {
        let answered = self.served.lock().tokens();
        let unanswered = self.unanswered.take();
        let unanswered = unanswered.iter().filter_map(Weak::upgrade);
        // Without a lock: a cancelled call wakes user code.
        answered
            .into_iter()
            .chain(unanswered)
            .for_each(|call| call.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_have_ended_are_forgotten() {
        let calls = UnansweredCalls::default();
        let kept: Vec<_> = (0..10_000)
            .filter_map(|number| {
                let call = Arc::<CallCancel>::default();
                calls.note(&call);
                (number % 1000 == 0).then_some(call)
            })
            .collect();
        assert!(
            calls.0.lock().len() <= 8 + 2 * kept.len(),
            "{}",
            calls.0.lock().len()
        );
        let living = calls.take().iter().filter_map(Weak::upgrade).count();
        assert_eq!(living, kept.len());
    }
}
