//! Maps: a remote function for each of many items.

use std::fmt;
use std::time::{Duration, Instant};

use selvedge_channels::Wire;
use selvedge_core::{CallBatch, CallError, MapName, RemoteFunction, Runtime};

use crate::error::MapError;
use crate::pool::Pool;
use crate::retry::{Check, Copier, Retries};
use crate::schedule::{Piece, Schedule};

/// Work for a pool, described by [`Pool::map`] or [`Pool::map_tuples`]. [`collect`](Self::collect) or [`results`](Self::results) has
/// it done.
#[must_use = "a described map does nothing until it is collected"]
pub struct Map<'a, F: RemoteFunction, I> {
    pool: &'a Pool,
    function: F,
    /// The arguments of each call.
    items: I,
    /// The items of a batch, if that is set.
    batch: Option<usize>,
    is_here: bool,
    deadline: Option<Duration>,
    /// The pauses before further tries of an item, and how an item is copied.
    pauses: Option<(Vec<Duration>, Copier<F::Arguments>)>,
    /// The errors after which an item is tried again; all of them if that is not set.
    check: Option<Check>,
}

impl<F: RemoteFunction, I> fmt::Debug for Map<'_, F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("batch", &self.batch)
            .field("is_here", &self.is_here)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Describes a call of a remote function of one argument for each item. A worker gets the next item when it is free. Values come in
    /// the order of the items.
    ///
    /// If a worker dies, another one gets its items, so a call may run twice: up to three workers may die of an item. The function
    /// sees copies of what it captures, which each call takes along.
    pub fn map<F, X, I>(&self, function: F, items: I) -> Map<'_, F, impl Iterator<Item = (X,)> + use<F, X, I>>
    where
        F: RemoteFunction<Arguments = (X,)>,
        I: IntoIterator<Item = X>,
    {
        self.map_tuples(function, items.into_iter().map(|item| (item,)))
    }

    /// Describes a call of a remote function for each tuple of arguments: [`map`](Self::map) for functions of several arguments. Two
    /// collections become tuples by `zip`.
    pub fn map_tuples<F, I>(&self, function: F, arguments: I) -> Map<'_, F, I::IntoIter>
    where
        F: RemoteFunction,
        I: IntoIterator<Item = F::Arguments>,
    {
        Map {
            pool: self,
            function,
            items: arguments.into_iter(),
            batch: None,
            is_here: false,
            deadline: None,
            pauses: None,
            check: None,
        }
    }
}

/// Items of a map as a piece.
type MapPiece<F> = Piece<<F as RemoteFunction>::Output, Items<<F as RemoteFunction>::Arguments>>;

/// The items of a piece.
struct Items<X> {
    first: u64,
    count: usize,
    /// Copies, if items may be tried again; else nothing.
    copies: Vec<X>,
    /// The tries of these items, with this one.
    tries: usize,
}

/// A pause longer than any map.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// The time that a batch is to take, if its length is not set: much longer than a message there and back.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// The items of such a batch at most.
const BATCH_MAX: usize = 1024;

/// The items of the next batch, after one of `count` items that took `took`.
fn next_batch(count: usize, took: Duration) -> usize {
    let each = took.as_nanos() / count.max(1) as u128;
    let fit = BATCH_TIME.as_nanos().checked_div(each).unwrap_or(u128::MAX);
    let fit = usize::try_from(fit).unwrap_or(usize::MAX);
    // One batch that took little time says little about the next one.
    fit.clamp(1, count.saturating_mul(2).clamp(1, BATCH_MAX))
}

impl<'a, F, I> Map<'a, F, I>
where
    F: RemoteFunction<Output: Wire>,
    I: Iterator<Item = F::Arguments>,
{
    /// Sends up to `items` items in one message. By default, the first items go one by one, and batches grow as long as one of them takes
    /// less than a millisecond: so calls of microseconds are cheap, and long ones are spread evenly.
    ///
    /// The calls of a batch run one after the other. Calls of async functions and calls with references always go one by one.
    pub fn batch(mut self, items: usize) -> Self {
        self.batch = Some(items.max(1));
        self
    }

    /// Runs the calls in this process, instead of the workers of the pool.
    pub fn here(mut self) -> Self {
        self.is_here = true;
        self
    }

    /// Sets the time for the whole map, counted from its [`collect`](Self::collect) or [`results`](Self::results). After that, calls that
    /// run are cancelled, and the error is [`MapError::Deadline`]. Without a deadline, a map that has begun ends with its last item; one that finds
    /// all workers busy for a minute before its first item ends with [`PoolError::Busy`](crate::PoolError::Busy).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Tries an item again whose call has failed: a second time after the first of these pauses, a third time after the second one, and
    /// so on, as often as there are pauses.
    pub fn retry_after(mut self, pauses: impl IntoIterator<Item = Duration>) -> Self
    where
        F::Arguments: Clone,
    {
        self.pauses = Some((pauses.into_iter().collect(), F::Arguments::clone));
        self
    }

    /// Tries again only after errors for which `check` returns true. Has no effect without
    /// [`retry_after`](Self::retry_after), and may be called before or after it.
    pub fn retry_if(mut self, check: impl FnMut(&CallError) -> bool + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Has the work done, and returns the values in the order of the items. The first error ends the work: calls that run are
    /// cancelled, which a function that computes does not notice, so some may run on for a while.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn collect(self) -> Result<Vec<F::Output>, MapError> {
        let outcomes = self.done(true)?.into_iter().zip(0_u64..);
        let values = outcomes.map(|(outcome, item)| outcome.map_err(|error| MapError::Item { item, error }));
        values.collect()
    }

    /// Has the work done, and returns the outcome of each call, in the order of the items. Errors end nothing: if a batch fails as a whole,
    /// because its workers have died for example, each of its items has that error.
    ///
    /// # Errors
    /// [`MapError`]: there is no worker any more, the deadline has passed, or the arguments of an item cannot be encoded.
    pub fn results(self) -> Result<Vec<Result<F::Output, CallError>>, MapError> {
        self.done(false)
    }

    fn done(self, stops: bool) -> Result<Vec<Result<F::Output, CallError>>, MapError> {
        let runtime = self.pool.runtime()?;
        let here = match self.is_here {
            true => Some(Pool::here(&runtime)?),
            false => None,
        };
        let pool = here.as_ref().unwrap_or(self.pool);
        let workers = pool.processes()?.len();
        let schedule = Schedule::new(pool, runtime.clone(), self.deadline);
        let check = self.check.unwrap_or_else(|| Box::new(|_| true));
        let retries = self.pauses.map(|(delays, copy)| Retries { delays, check, copy });
        let work = MapWork {
            name: MapName::next(&runtime),
            runtime,
            function: self.function,
            items: self.items.fuse(),
            next: 0,
            batch: self.batch.unwrap_or(1),
            grows: self.batch.is_none(),
            workers,
            stops,
            retries,
            outcomes: Vec::new(),
        };
        work.run(schedule)
    }
}

/// The outcomes of calls that have all ended by one error.
fn each_failed<V>(count: usize, error: CallError) -> Vec<Result<V, CallError>> {
    std::iter::repeat_n(error, count).map(Err).collect()
}

/// A map that is being done.
struct MapWork<F: RemoteFunction, I> {
    runtime: Runtime,
    function: F,
    items: I,
    /// The place of the next item.
    next: u64,
    /// The items of the next batch.
    batch: usize,
    name: MapName,
    /// Whether batches grow while they take little time.
    grows: bool,
    /// The workers that share the items, at least one.
    workers: usize,
    /// Whether the first error ends the work.
    stops: bool,
    retries: Option<Retries<F::Arguments>>,
    /// The outcome of each item so far.
    outcomes: Vec<Option<Result<F::Output, CallError>>>,
}

impl<F, I> MapWork<F, I>
where
    F: RemoteFunction<Output: Wire>,
    I: Iterator<Item = F::Arguments>,
{
    fn run(
        mut self,
        mut schedule: Schedule<'_, F::Output, Items<F::Arguments>>,
    ) -> Result<Vec<Result<F::Output, CallError>>, MapError> {
        while let Some(done) = schedule.next(&mut || self.piece())? {
            let items = done.meaning;
            if self.grows && items.tries == 1 {
                self.batch = next_batch(items.count, done.took);
            }
            let outcomes = match done.outcomes {
                Ok(outcomes) => outcomes,
                Err(error) => each_failed(items.count, error),
            };
            self.note(items, outcomes, &mut schedule)?;
        }
        Ok(self.outcomes.into_iter().flatten().collect())
    }

    /// The items of the next batch at most. Near the end of the items, batches get smaller, so that all workers end at about one time.
    fn most(&self) -> usize {
        match self.items.size_hint() {
            (_, Some(left)) if self.grows => self.batch.min(left / (2 * self.workers)).max(1),
            _ => self.batch,
        }
    }

    /// The next items as a piece.
    fn piece(&mut self) -> Result<Option<MapPiece<F>>, MapError> {
        let (first, most) = (self.next, self.most());
        let mut copies = Vec::new();
        let (function, copy) = (&self.function, self.retries.as_ref().map(|retries| retries.copy));
        let mut calls = self.items.by_ref().map(|item| {
            copies.extend(copy.map(|copy| copy(&item)));
            function.describe(item)
        });
        let Some(call) = calls.next() else { return Ok(None) };
        let stops = self.stops && copy.is_none();
        let batch = CallBatch::of(&self.runtime, call, &mut calls, most, (self.name, stops));
        let batch = batch.map_err(|error| MapError::Item { item: first, error })?;
        let count = batch.count();
        if batch.has_references() {
            // Such calls go one by one.
            (self.batch, self.grows) = (1, false);
        }
        self.next += count as u64;
        let items = Items {
            first,
            count,
            copies,
            tries: 1,
        };
        Ok(Some(Piece::new(batch, items, None)))
    }

    /// Notes the outcomes of a piece. Items that have failed are tried again, as far as they may be.
    fn note(
        &mut self,
        items: Items<F::Arguments>,
        outcomes: Vec<Result<F::Output, CallError>>,
        schedule: &mut Schedule<'_, F::Output, Items<F::Arguments>>,
    ) -> Result<(), MapError> {
        let mut copies = items.copies.into_iter();
        let places = items.first..items.first + items.count as u64;
        for (item, outcome) in places.zip(outcomes) {
            let (copy, failed) = (copies.next(), outcome.as_ref().err());
            let delay = failed.and_then(|error| self.retries.as_mut()?.delay(items.tries, error));
            if let (Some(copy), Some(delay)) = (copy, delay) {
                schedule.push(self.again(item, copy, items.tries + 1, delay)?);
                continue;
            }
            match outcome {
                Err(error) if self.stops => return Err(MapError::Item { item, error }),
                outcome => self.set(item, outcome),
            }
        }
        Ok(())
    }

    /// Another try of an item.
    fn again(
        &self,
        first: u64,
        item: F::Arguments,
        tries: usize,
        delay: Duration,
    ) -> Result<MapPiece<F>, MapError> {
        let copies = self.retries.iter().map(|retries| (retries.copy)(&item)).collect();
        let batch = CallBatch::one(&self.runtime, self.function.describe(item));
        let batch = batch.map_err(|error| MapError::Item { item: first, error })?;
        let items = Items {
            first,
            count: 1,
            copies,
            tries,
        };
        // A time that no clock reaches stands for one that nobody waits for.
        let due = [delay, NEVER]
            .into_iter()
            .find_map(|delay| Instant::now().checked_add(delay));
        Ok(Piece::new(batch, items, due))
    }

    fn set(&mut self, item: u64, outcome: Result<F::Output, CallError>) {
        let place = usize::try_from(item).unwrap_or(usize::MAX);
        if self.outcomes.len() <= place {
            self.outcomes.resize_with(place + 1, || None);
        }
        if let Some(empty) = self.outcomes.get_mut(place) {
            *empty = Some(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_to_about_a_millisecond() {
        let micros = Duration::from_micros;
        assert_eq!(next_batch(1, micros(10)), 2);
        assert_eq!(next_batch(64, micros(640)), 100);
        assert_eq!(next_batch(100, micros(5_000)), 20);
        assert_eq!(next_batch(1, Duration::from_secs(5)), 1);
        assert_eq!(next_batch(BATCH_MAX, Duration::ZERO), BATCH_MAX);
        assert_eq!(next_batch(0, Duration::ZERO), 1);
    }
}
