//! The wait for some of many values.

use std::time::Duration;

use crate::reference::{FetchError, Ref};
use crate::runtime::Runtime;
use crate::waiting::{until_some, wait_for_some};

impl Runtime {
    /// Waits until `count` of the references have their value, or a failure in its place, at most `timeout`. Returns those that have
    /// one, at most `count` and in the order given, and all others. No value is moved. What is returned are clones, so an error costs no
    /// reference, and a loop goes on with the others:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use selvedge_core::{FetchError, Ref, Runtime};
    /// fn use_each(runtime: &Runtime, mut left: Vec<Ref<u64>>) -> Result<(), FetchError> {
    ///     while !left.is_empty() {
    ///         let done;
    ///         (done, left) = runtime.wait(&left, 1, Duration::from_secs(60))?;
    ///         for made in done {
    ///             println!("{}", made.fetch()?);
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # use_each(&Runtime::new(), Vec::new())?;
    /// # Ok::<(), FetchError>(())
    /// ```
    ///
    /// # Errors
    /// [`FetchError`]: a remote function must not wait, because it is an `async fn` or because too many wait already, or its call was
    /// cancelled. The end of the time is no error.
    #[expect(clippy::type_complexity, reason = "two lists of references need no name")]
    pub fn wait<T>(
        &self,
        references: &[Ref<T>],
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

    /// Waits until `count` of the references have their value, or a failure in its place, like [`wait`](Self::wait), by `.await` and
    /// without a limit.
    pub async fn wait_async<T>(&self, references: &[Ref<T>], count: usize) -> (Vec<Ref<T>>, Vec<Ref<T>>) {
        let count = count.min(references.len());
        let mut words: Vec<_> = references.iter().map(Ref::told_when_ready).collect();
        let made = until_some(&mut words, count).await;
        parted(references, &made, count)
    }

    /// Waits until all of the references have their value, or a failure in its place, as long as that takes, and gives the key of each to
    /// `made` once it has. The owner of each is asked once, and no value is moved.
    ///
    /// # Errors
    /// The first error of `made`, which ends the wait; else as for [`wait`](Self::wait).
    #[doc(hidden)] // for the floor of parallel work
    pub fn each_made<'a, K, T: 'a, E: From<FetchError>>(
        &self,
        references: impl Iterator<Item = (K, &'a Ref<T>)>,
        mut made: impl FnMut(K) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left: Vec<(K, &Ref<T>)> = references.collect();
        let told_when_ready = |(_, reference): &(K, &Ref<T>)| reference.told_when_ready();
        let mut words: Vec<_> = left.iter().map(told_when_ready).collect();
        while let Some((_, first)) = left.first() {
            let told = wait_for_some(&words, 1, Duration::MAX).map_err(|reason| first.not_awaited(reason))?;
            let mut is_told = told.iter();
            words.retain(|_| is_told.next() != Some(&true));
            let mut is_told = told.iter();
            let ready = left.extract_if(.., |_| is_told.next() == Some(&true));
            ready.map(|(key, _)| key).try_for_each(&mut made)?;
        }
        Ok(())
    }
}

/// The first `count` of the references whose value is made, and all others.
fn parted<T>(references: &[Ref<T>], made: &[bool], count: usize) -> (Vec<Ref<T>>, Vec<Ref<T>>) {
    let (mut done, mut left) = (Vec::with_capacity(count), Vec::new());
    for (reference, is_made) in references.iter().cloned().zip(made) {
        match *is_made && done.len() < count {
            true => done.push(reference),
            false => left.push(reference),
        }
    }
    (done, left)
}
