//! The cancellation of all functions that run in this process: of those that other processes have called, or of all at its end.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cancel::CallCancel;
use crate::remote::service::Remote;

/// The tokens of functions that no table lists.
#[derive(Default)]
struct CallTokens(Mutex<Vec<Weak<CallCancel>>>);

impl CallTokens {
    /// Notes a function that is to run, and forgets those that have ended. Each call forgets as many as it notes, on average.
    fn note(&self, cancel: &Arc<CallCancel>) {
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

/// The functions of this process for whose answer no other process waits.
#[derive(Default)]
pub(super) struct UnansweredCalls {
    /// Functions that other processes have called: their values stay here, or nobody wants them.
    of_others: CallTokens,
    /// Functions that this process has called itself.
    own: CallTokens,
}

impl UnansweredCalls {
    /// Notes a function that another process has called.
    pub(super) fn note(&self, cancel: &Arc<CallCancel>) {
        self.of_others.note(cancel);
    }

    /// Notes a function that this process has called itself.
    pub(super) fn note_own(&self, cancel: &Arc<CallCancel>) {
        self.own.note(cancel);
    }
}

impl Remote {
    /// Cancels all functions of this process, which ends.
    pub(super) fn cancel_all(&self) {
        let answered = self.served.lock().take_all();
        cancel(answered, self.unanswered.of_others.take());
        cancel(Vec::new(), self.unanswered.own.take());
    }

    /// Interrupts the functions that other processes have called and that have not ended: each is cancelled, and its outcome goes to
    /// whoever has called it. Later calls are not concerned.
    pub(crate) fn interrupt(&self) {
        let answered = self.served.lock().tokens();
        cancel(answered, self.unanswered.of_others.take());
    }
}

/// Cancels calls. The caller holds no lock: a cancelled call wakes user code.
fn cancel(answered: Vec<Arc<CallCancel>>, unanswered: Vec<Weak<CallCancel>>) {
    let unanswered = unanswered.iter().filter_map(Weak::upgrade);
    answered
        .into_iter()
        .chain(unanswered)
        .for_each(|call| call.cancel());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_have_ended_are_forgotten() {
        let calls = CallTokens::default();
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
