//! Loops over ranges of numbers: a chunk for each worker.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use selvedge_channels::Wire;
use selvedge_core::{Call, CallBatch, RemoteFunction};

use crate::error::MapError;
use crate::pool::Pool;
use crate::schedule::{Piece, Schedule};
use crate::split::split_range;

/// A range of numbers for a pool, described by [`Pool::range`].
#[derive(Debug)]
#[must_use = "a described loop does nothing until it is reduced or started"]
pub struct RangeWork<'a> {
    pool: &'a Pool,
    range: Range<u64>,
    deadline: Option<Duration>,
}

impl Pool {
    /// Describes a loop over a range. Each worker gets one chunk, as [`split_range`] cuts them, and calls a remote function for it, which
    /// loops over the numbers. What the function captures is sent once to each worker, as a copy.
    pub fn range(&self, range: Range<u64>) -> RangeWork<'_> {
        RangeWork {
            pool: self,
            range,
            deadline: None,
        }
    }
}

impl RangeWork<'_> {
    /// Sets the time for the whole loop, counted from its [`reduce`](Self::reduce) or [`start`](Self::start). After that its calls are
    /// cancelled: the error of `reduce` is [`MapError::Deadline`], and that of a loop that was started is that of the call for a chunk.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Calls the function for each chunk, and combines the values of the chunks here, in the order of the range: `combine` should be
    /// associative, and need not be commutative. `None` for an empty range.
    ///
    /// # Errors
    /// [`MapError`]. The first error ends the work.
    pub fn reduce<F>(
        self,
        function: F,
        combine: impl FnMut(F::Output, F::Output) -> F::Output,
    ) -> Result<Option<F::Output>, MapError>
    where
        F: RemoteFunction<Arguments = (Range<u64>,), Output: Wire>,
    {
        let runtime = self.pool.runtime()?;
        let mut schedule = Schedule::new(self.pool, runtime.clone(), self.deadline);
        let mut chunks = self.chunks()?.into_iter();
        let mut source = || {
            let Some(chunk) = chunks.next() else {
                return Ok(None);
            };
            let batch = CallBatch::one(&runtime, function.describe((chunk.clone(),)));
            match batch {
                Ok(batch) => Ok(Some(Piece::new(batch, chunk, None))),
                Err(error) => Err(MapError::Chunk { chunk, error }),
            }
        };
        let mut values = Vec::new();
        while let Some(done) = schedule.next(&mut source)? {
            let chunk = done.meaning;
            let outcomes = done
                .outcomes
                .and_then(|outcomes| outcomes.into_iter().collect::<Result<Vec<_>, _>>());
            match outcomes {
                Ok(outcomes) => values.extend(outcomes.into_iter().map(|value| (chunk.start, value))),
                Err(error) => return Err(MapError::Chunk { chunk, error }),
            }
        }
        values.sort_by_key(|(first, _)| *first);
        Ok(values.into_iter().map(|(_, value)| value).reduce(combine))
    }

    /// Calls the function for each chunk, and returns at once. The workers are not taken from the pool.
    ///
    /// # Errors
    /// [`MapError`]: there is no worker.
    pub fn start<F>(self, function: F) -> Result<Loop, MapError>
    where
        F: RemoteFunction<Arguments = (Range<u64>,), Output = ()>,
    {
        let runtime = self.pool.runtime()?;
        let processes = self.pool.processes()?;
        let chunks = split_range(self.range, processes.len())
            .into_iter()
            .zip(processes);
        let calls = chunks.map(|(chunk, process)| {
            let mut call = function.describe((chunk.clone(),)).on_process(process);
            if let Some(deadline) = self.deadline {
                call = call.deadline(deadline);
            }
            (chunk, runtime.call(call))
        });
        Ok(Loop {
            calls: calls.collect(),
        })
    }

    fn chunks(&self) -> Result<Vec<Range<u64>>, MapError> {
        let workers = self.pool.processes()?.len();
        Ok(split_range(self.range.clone(), workers))
    }
}

/// A loop that runs on several workers, started by [`RangeWork::start`]. The drop cancels its calls.
#[must_use = "the errors of a loop show when it is waited for"]
pub struct Loop {
    /// Each chunk, and its call.
    calls: Vec<(Range<u64>, Call<()>)>,
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("chunks", &self.calls.len()).finish()
    }
}

impl Loop {
    /// Waits until all chunks are done. The wait ends early with the first chunk that has failed, or whose worker has died; the others
    /// are cancelled then.
    ///
    /// # Errors
    /// [`MapError::Chunk`].
    pub fn wait(self) -> Result<(), MapError> {
        let (mut chunks, mut calls): (Vec<Range<u64>>, Vec<Call<()>>) = self.calls.into_iter().unzip();
        while let Some(place) = Call::wait_any(&mut calls, Duration::MAX).map_err(MapError::NotAwaited)? {
            let (chunk, ended) = (chunks.swap_remove(place), calls.swap_remove(place).wait());
            ended.map_err(|error| MapError::Chunk { chunk, error })?;
        }
        Ok(())
    }

    /// Lets the loop go on without this object.
    pub fn detach(self) {
        self.calls.into_iter().for_each(|(_, call)| call.detach());
    }
}
