//! The wait for some of many values.

use std::time::Duration;

use crate::reference::{FetchError, Ref};
use crate::runtime::Runtime;
use crate::waiting::wait_for_some;

impl Runtime {
    /// Waits until `count` of the references have their value, or a failure in its place, at most `timeout`. Returns those that have
    /// one, at most `count` and in the order given, and all others. No value is moved.
    ///
    /// # Errors
    /// [`FetchError`]: a remote function must not wait, because it is an `async fn` or because too many wait already, or its call was
    /// cancelled. The end of the time is no error.
    #[expect(clippy::type_complexity, reason = "two lists of references need no name")]
    pub fn wait<T>(
        &self,
        references: Vec<Ref<T>>,
        count: usize,
        timeout: Duration,
    ) -> Result<(Vec<Ref<T>>, Vec<Ref<T>>), FetchError> {
        let count = count.min(references.len());
        let words: Vec<_> = references.iter().map(Ref::told_when_ready).collect();
        let Some(first) = references.first() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let ready = wait_for_some(&words, count, timeout).map_err(|reason| first.not_awaited(reason))?;
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for (reference, is_ready) in references.into_iter().zip(ready) {
            match is_ready && done.len() < count {
                true => done.push(reference),
                false => left.push(reference),
            }
        }
        Ok((done, left))
    }
}
