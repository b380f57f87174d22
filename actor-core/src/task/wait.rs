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
        let Some(first) = references.first() else {
            return Ok((Vec::new(), Vec::new()));
        };
        // As many as are needed are often there: then nothing listens, and no value after them is looked at.
        let mut missing = count;
        let is_needed = |reference: &Ref<T>| {
            let is_needed = missing > 0 && reference.is_made_here();
            missing -= usize::from(is_needed);
            is_needed
        };
        let mut made: Vec<bool> = references.iter().map(is_needed).collect();
        if missing > 0 {
            let words: Vec<_> = references.iter().map(Ref::told_when_ready).collect();
            made = wait_for_some(&words, count, timeout).map_err(|reason| first.not_awaited(reason))?;
        }
        Ok(parted(references, &made, count))
    }
}

/// The first `count` of the references whose value is made, and all others.
fn parted<T>(references: Vec<Ref<T>>, made: &[bool], count: usize) -> (Vec<Ref<T>>, Vec<Ref<T>>) {
    let (mut done, mut left) = (Vec::with_capacity(count), Vec::new());
    for (reference, is_made) in references.into_iter().zip(made) {
        match *is_made && done.len() < count {
            true => done.push(reference),
            false => left.push(reference),
        }
    }
    (done, left)
}
