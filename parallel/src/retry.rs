//! When an item is tried again.

use std::time::Duration;

use selvedge_core::CallError;

/// The question whether an error is worth another try.
pub(crate) type Check = Box<dyn FnMut(&CallError) -> bool>;

/// Copies an item, so that it is there for another try.
pub(crate) type Copier<X> = fn(&X) -> X;

/// When an item is tried again whose call has failed.
pub(crate) struct Retries<X> {
    /// The pauses before the second try, the third one and so on.
    pub(crate) delays: Vec<Duration>,
    pub(crate) check: Check,
    pub(crate) copy: Copier<X>,
}

impl<X> Retries<X> {
    /// The pause before the next try of an item that was tried so many times; `None` if there is no other try.
    pub(crate) fn delay(&mut self, tries: usize, error: &CallError) -> Option<Duration> {
        let delay = self.delays.get(tries.checked_sub(1)?)?;
        (self.check)(error).then_some(*delay)
    }
}
