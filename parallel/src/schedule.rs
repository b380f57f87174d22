//! The distribution of work over the workers of a pool: each free worker gets the next piece.

use std::time::{Duration, Instant};

use selvedge_channels::Wire;
use selvedge_core::{
    BatchCall, CallBatch, CallError, RemoteChannel, RemoteChannelError, RemoteError, Runtime,
};

use crate::error::{MapError, PoolError};
use crate::pool::{Pool, PoolWorker};

/// The workers that may die of a piece before it fails.
pub(crate) const DEATHS_MAX: usize = 3;

/// Calls that one worker makes, with what belongs to them.
pub(crate) struct Piece<T, M> {
    pub(crate) batch: CallBatch<T>,
    pub(crate) meaning: M,
    /// The moment before which it is not begun.
    pub(crate) due: Option<Instant>,
    /// The workers that have died of it.
    deaths: usize,
}

impl<T, M> Piece<T, M> {
    pub(crate) fn new(batch: CallBatch<T>, meaning: M, due: Option<Instant>) -> Self {
        let deaths = 0;
        Piece {
            batch,
            meaning,
            due,
            deaths,
        }
    }
}

/// A piece and the worker that has it.
struct Busy<T, M> {
    worker: PoolWorker,
    piece: Piece<T, M>,
}

/// Work that is being done. The drop cancels what is in flight.
pub(crate) struct Schedule<'a, T, M> {
    pool: &'a Pool,
    runtime: Runtime,
    /// Workers without a piece.
    idle: Vec<PoolWorker>,
    busy: Vec<Busy<T, M>>,
    /// The call of each busy worker.
    calls: Vec<BatchCall<T>>,
    /// Pieces that are begun before others come from the source.
    again: Vec<Piece<T, M>>,
    /// A channel into which nobody puts: a wait at it lasts until its deadline, or until the function that waits is cancelled.
    pause: Option<RemoteChannel<u8>>,
}

/// The outcomes of a piece, and its meaning.
pub(crate) type Done<T, M> = (M, Result<Vec<Result<T, CallError>>, CallError>);

impl<'a, T: Wire, M> Schedule<'a, T, M> {
    pub(crate) fn new(pool: &'a Pool, runtime: Runtime) -> Self {
        Schedule {
            pool,
            runtime,
            idle: Vec::new(),
            busy: Vec::new(),
            calls: Vec::new(),
            again: Vec::new(),
            pause: None,
        }
    }

    /// Adds a piece that is to be done before those that the source has left.
    pub(crate) fn push(&mut self, piece: Piece<T, M>) {
        self.again.push(piece);
    }

    /// Gives pieces to free workers, and waits for the end of one. `None` if there is none left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl FnMut() -> Result<Option<Piece<T, M>>, MapError>,
    ) -> Result<Option<Done<T, M>>, MapError> {
        loop {
            self.begin(source)?;
            let until = self.again.iter().filter_map(|piece| piece.due).min();
            if self.calls.is_empty() && until.is_none() {
                return Ok(None);
            }
            let wait = until.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            if self.calls.is_empty() {
                self.pause(wait)?;
                continue;
            }
            let ended = BatchCall::wait_any(&self.calls, wait).map_err(MapError::NotAwaited)?;
            if let Some(done) = ended.and_then(|place| self.ended(place)) {
                return Ok(Some(done));
            }
        }
    }

    /// Begins pieces as long as there are workers for them.
    fn begin(
        &mut self,
        source: &mut impl FnMut() -> Result<Option<Piece<T, M>>, MapError>,
    ) -> Result<(), MapError> {
        loop {
            let now = Instant::now();
            let is_due = |piece: &Piece<T, M>| piece.due.is_none_or(|due| due <= now);
            let place = self.again.iter().position(is_due);
            // The worker is taken before the piece is made, which copies its arguments.
            let Some(worker) = self.worker()? else {
                return Ok(());
            };
            let piece = match place {
                Some(place) => Some(self.again.swap_remove(place)),
                None => source()?,
            };
            let Some(mut piece) = piece else {
                // Others may need it.
                drop(worker);
                self.idle.clear();
                return Ok(());
            };
            piece.due = None;
            self.calls.push(piece.batch.call(&self.runtime, worker.process()));
            self.busy.push(Busy { worker, piece });
        }
    }

    /// A worker without a piece, if there is one. Waits for one if no call is in flight.
    fn worker(&mut self) -> Result<Option<PoolWorker>, PoolError> {
        if let Some(idle) = self.idle.pop() {
            return Ok(Some(idle));
        }
        match self.calls.is_empty() {
            true => Ok(Some(self.pool.take()?)),
            false if !self.pool.is_ready()? => Ok(None),
            false => match self.pool.take_timeout(Duration::ZERO) {
                Ok(worker) => Ok(Some(worker)),
                Err(PoolError::Busy { .. } | PoolError::NoWorker) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// The call at this place has ended. `None` if another worker gets the piece.
    fn ended(&mut self, place: usize) -> Option<Done<T, M>> {
        let (call, Busy { worker, mut piece }) =
            (self.calls.swap_remove(place), self.busy.swap_remove(place));
        let outcomes = call.outcomes(&self.runtime, worker.process());
        match &outcomes {
            Err(error) if is_of_worker(error) => {
                worker.remove();
                piece.deaths += 1;
                if piece.deaths < DEATHS_MAX {
                    self.again.push(piece);
                    return None;
                }
            }
            _ => self.idle.push(worker),
        }
        Some((piece.meaning, outcomes))
    }

    /// Waits without calls in flight.
    fn pause(&mut self, wait: Duration) -> Result<(), PoolError> {
        self.idle.clear();
        let pause = match &self.pause {
            Some(pause) => pause.clone(),
            None => self.pause.insert(self.runtime.channel(0)?).clone(),
        };
        match pause.take_timeout(wait) {
            Err(RemoteChannelError::Timeout { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a worker can do nothing any more.
fn is_of_worker(error: &CallError) -> bool {
    matches!(
        error.remote(),
        Some(RemoteError::Died { .. } | RemoteError::NoSuchProcess { .. } | RemoteError::NoLink(_))
    )
}
