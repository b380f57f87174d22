//! The way to a thread that is started when somebody needs it first, and ended once.

use std::io;

use parking_lot::Mutex;

use super::executor::WorkRefusal;

/// The sending end of the queue of such a thread. The thread ends when this end is gone.
pub(crate) struct OnDemand<S>(Mutex<DemandState<S>>);

enum DemandState<S> {
    NotStarted,
    Open(S),
    Stopped,
}

impl<S: Clone> OnDemand<S> {
    pub(crate) fn new() -> Self {
        OnDemand(Mutex::new(DemandState::NotStarted))
    }

    /// The sending end. `start` starts the thread if it was not needed yet.
    ///
    /// # Errors
    /// The thread has been stopped, or the system refuses it.
    pub(crate) fn get(&self, start: impl FnOnce() -> io::Result<S>) -> Result<S, WorkRefusal> {
        let mut state = self.0.lock();
        match &*state {
            DemandState::Open(sender) => Ok(sender.clone()),
            DemandState::Stopped => Err(WorkRefusal::Stopped),
            DemandState::NotStarted => {
                let sender = start().map_err(|error| WorkRefusal::NoThread(error.to_string()))?;
                *state = DemandState::Open(sender.clone());
                Ok(sender)
            }
        }
    }

    /// Ends the thread, once it has done what it has.
    pub(crate) fn stop(&self) {
        let before = std::mem::replace(&mut *self.0.lock(), DemandState::Stopped);
        drop(before);
    }
}
