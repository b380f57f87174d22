//! The wait of a function for something that another process or thread answers.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::cancel::{Cancellation, Unwanted, cancellation};
use crate::current::{GivenPlace, NoBlocking, give_place};
use crate::promise::{Answer, NoAnswer};
use crate::sleeper::Sleeper;

/// The reason that a wait ended without its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The call of the function that waited is no longer wanted.
    Cancelled,
    /// The time is over.
    TimedOut {
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The function must not block.
    Refused(NoBlocking),
}

/// The right to wait. A remote function that has it has given its place to another call, unless it waits in place.
pub(crate) struct WaitPermit {
    call: Cancellation,
    started: Instant,
    timeout: Duration,
    place: Option<GivenPlace>,
}

impl WaitPermit {
    /// Begins a wait of at most `timeout`. A question is asked afterwards, so one whose answer must not be waited for is not
    /// asked.
    ///
    /// # Errors
    /// [`Unanswered::Cancelled`], [`Unanswered::Refused`].
    pub(crate) fn begin(timeout: Duration) -> Result<Self, Unanswered> {
        let mut waiting = Self::in_place(timeout);
        if waiting.call.is_cancelled() {
            return Err(Unanswered::Cancelled);
        }
        waiting.place = Some(give_place().map_err(Unanswered::Refused)?);
        Ok(waiting)
    }

    /// Begins a wait of at most `timeout` that takes a place.
    pub(crate) fn in_place(timeout: Duration) -> Self {
        WaitPermit {
            call: cancellation(),
            started: Instant::now(),
            timeout,
            place: None,
        }
    }

    /// Waits for an answer.
    pub(crate) fn wait_for<T>(self, answer: &mut Answer<T>) -> Result<Result<T, NoAnswer>, Unanswered> {
        let deadline = self.started.checked_add(self.timeout);
        let waited = self.call.wait_for(answer, deadline);
        drop(self.place);
        match waited {
            Ok(Some(answered)) => Ok(answered),
            Ok(None) => Err(Unanswered::TimedOut {
                waited: self.started.elapsed(),
            }),
            Err(Unwanted) => Err(Unanswered::Cancelled),
        }
    }
}

/// Waits at most `timeout` until one of several answers is there. Returns its place; `None` if the time is over first.
pub(crate) fn wait_for_any<'a, T: 'a>(
    answers: impl Iterator<Item = &'a Answer<T>> + Clone,
    timeout: Duration,
) -> Result<Option<usize>, Unanswered> {
    let answered = || answers.clone().position(|answer| !answer.is_open());
    let Some(first) = answers.clone().next() else {
        return Ok(None);
    };
    if let Some(place) = answered() {
        return Ok(Some(place));
    }
    let waiting = WaitPermit::begin(timeout)?;
    let sleeper = first.sleeper();
    if answers.clone().all(|answer| answer.listen(&sleeper)) {
        let deadline = waiting.started.checked_add(timeout);
        let all_open = || answered().is_none();
        waiting
            .call
            .sleep(&sleeper, deadline, all_open)
            .map_err(|Unwanted| Unanswered::Cancelled)?;
    }
    drop(waiting.place);
    Ok(answered())
}

/// Waits for the answer to what was asked already, at most `timeout`. An answer that is there needs no wait.
pub(crate) fn wait_for<T>(
    answer: &mut Answer<T>,
    timeout: Duration,
) -> Result<Result<T, NoAnswer>, Unanswered> {
    match answer.try_take() {
        Some(answered) => Ok(answered),
        None => WaitPermit::begin(timeout)?.wait_for(answer),
    }
}

/// Something that is told once.
pub(crate) trait ToldOnce: Send {
    /// Whether the word was given.
    fn is_told(&self) -> bool;

    /// Has the word wake this thread. Returns whether it is still to come.
    fn listen(&self, sleeper: &Arc<Sleeper>) -> bool;

    /// The thread that is about to wait.
    fn sleeper(&self) -> Arc<Sleeper>;

    /// Has the word wake this task. Returns whether it is still to come.
    fn is_pending(&mut self, context: &mut Context<'_>) -> bool;
}

impl<T: Send> ToldOnce for Answer<T> {
    fn is_told(&self) -> bool {
        !self.is_open()
    }

    fn listen(&self, sleeper: &Arc<Sleeper>) -> bool {
        Answer::listen(self, sleeper)
    }

    fn sleeper(&self) -> Arc<Sleeper> {
        Answer::sleeper(self)
    }

    fn is_pending(&mut self, context: &mut Context<'_>) -> bool {
        // What was taken counts as told.
        Answer::poll(self, context).is_pending()
    }
}

/// Waits at most `timeout` until `count` of these were told. Returns for each of them whether it was.
pub(crate) fn wait_for_some(
    words: &[Box<dyn ToldOnce>],
    count: usize,
    timeout: Duration,
) -> Result<Vec<bool>, Unanswered> {
    let told = || words.iter().map(|word| word.is_told()).collect();
    let begin = Cell::new(0);
    let are_enough = || are_enough(words, count, &begin);
    // One that waits for letters has its thread read them.
    let open = words.iter().find(|word| !word.is_told());
    let Some(first) = open.filter(|_| !timeout.is_zero() && !are_enough()) else {
        return Ok(told());
    };
    let waiting = WaitPermit::begin(timeout)?;
    let deadline = waiting.started.checked_add(timeout);
    let sleeper = first.sleeper();
    for word in words {
        // One that was told already is seen below.
        let _ = word.listen(&sleeper);
    }
    let slept = waiting.call.sleep(&sleeper, deadline, || !are_enough());
    slept.map_err(|Unwanted| Unanswered::Cancelled)?;
    drop(waiting.place);
    Ok(told())
}

/// Waits until `count` of these were told. Returns for each of them whether it was.
pub(crate) async fn until_some(words: &mut [Box<dyn ToldOnce>], count: usize) -> Vec<bool> {
    let begin = Cell::new(0);
    std::future::poll_fn(|context| {
        // With so many that are still to come, one of them is the last that is needed.
        let open_max = words.len().saturating_sub(count);
        let mut open = 0;
        for word in words.iter_mut().skip(begin.get()) {
            open += usize::from(word.is_pending(context));
            if open > open_max {
                break;
            }
        }
        match are_enough(words, count, &begin) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    words.iter().map(|word| word.is_told()).collect()
}

/// Whether `count` of these were told. Asked at each word that is given, so it looks at no more of them than it needs: those before
/// `begin` are told, and too many that are not told end the look.
fn are_enough(words: &[Box<dyn ToldOnce>], count: usize, begin: &Cell<usize>) -> bool {
    while words.get(begin.get()).is_some_and(|word| word.is_told()) {
        begin.set(begin.get() + 1);
    }
    let (mut told, mut open) = (begin.get(), 0);
    let open_max = words.len().saturating_sub(count);
    for word in words.iter().skip(begin.get()) {
        if told >= count || open > open_max {
            break;
        }
        match word.is_told() {
            true => told += 1,
            false => open += 1,
        }
    }
    told >= count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::promise;

    /// Every order in which four words are given, and every number of them that is needed.
    #[test]
    fn enough_words_are_enough_whichever_they_are() {
        for count in 0..=4 {
            for order in 0..256_usize {
                let (mut promises, words): (Vec<_>, Vec<_>) = (0..4)
                    .map(|_| {
                        let (promise, answer) = promise::<()>();
                        (Some(promise), Box::new(answer) as Box<dyn ToldOnce>)
                    })
                    .unzip();
                let begin = Cell::new(0);
                let mut told = 0;
                assert_eq!(are_enough(&words, count, &begin), count == 0);
                for turn in 0..4 {
                    if let Some(promise) = promises[(order >> (2 * turn)) & 3].take() {
                        promise.keep(());
                        told += 1;
                    }
                    assert_eq!(
                        are_enough(&words, count, &begin),
                        told >= count,
                        "{order} {count}"
                    );
                }
            }
        }
    }
}
