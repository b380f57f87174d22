//! The distribution of work over the workers of a pool: each free worker gets the next piece.
//!
//! A worker whose last piece was short gets another one while it works, so that it does not wait for its caller in between. It does one
//! after the other.

use std::time::{Duration, Instant};

use selvedge_channels::Wire;
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{
    BatchCall, CallBatch, CallError, RemoteChannel, RemoteChannelError, RemoteError, Runtime,
};

use crate::error::{MapError, PoolError};
use crate::pool::{Pool, PoolWorker};

/// The workers that may die of a piece before it fails.
const DEATHS_MAX: usize = 3;

/// The time of a piece that is short: then the worker gets another one ahead.
const SHORT: Duration = Duration::from_millis(2);

/// Calls that one worker makes, with what belongs to them.
pub(crate) struct Piece<T, M> {
    pub(crate) batch: CallBatch<T>,
    pub(crate) meaning: M,
    /// The moment before which it is not begun.
    due: Option<Instant>,
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

/// A worker that was taken from the pool.
struct Taken {
    worker: PoolWorker,
    /// The pieces that it has: one, and another one ahead.
    pieces: usize,
    /// Whether its last piece was short.
    is_short: bool,
    /// The end of its last piece.
    last_end: Option<Instant>,
    /// The begin of the piece at which it has died.
    died_at: Option<Instant>,
}

/// A piece that a worker has.
struct Busy<T, M> {
    /// The place of the worker.
    taken: usize,
    process: ProcessId,
    piece: Piece<T, M>,
    begun: Instant,
}

/// Work that is being done. The drop cancels what is in flight.
pub(crate) struct Schedule<'a, T, M> {
    pool: &'a Pool,
    runtime: Runtime,
    /// The workers; `None` for one that has left.
    taken: Vec<Option<Taken>>,
    busy: Vec<Busy<T, M>>,
    /// The call of each piece that a worker has.
    calls: Vec<BatchCall<T>>,
    /// Pieces that are begun before others come from the source.
    again: Vec<Piece<T, M>>,
    /// A channel into which nobody puts: a wait at it lasts until its deadline, or until the function that waits is cancelled.
    pause: Option<RemoteChannel<u8>>,
}

/// A piece that has ended.
pub(crate) struct Done<T, M> {
    pub(crate) meaning: M,
    pub(crate) outcomes: Result<Vec<Result<T, CallError>>, CallError>,
    /// The time that its worker has worked at it.
    pub(crate) took: Duration,
}

impl<'a, T: Wire, M> Schedule<'a, T, M> {
    pub(crate) fn new(pool: &'a Pool, runtime: Runtime) -> Self {
        Schedule {
            pool,
            runtime,
            taken: Vec::new(),
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

    /// Gives pieces to workers, and waits for the end of one. `None` if there is none left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl FnMut() -> Result<Option<Piece<T, M>>, MapError>,
    ) -> Result<Option<Done<T, M>>, MapError> {
        loop {
            self.begin(source)?;
            let until = self.again.iter().filter_map(|piece| piece.due).min();
            if self.calls.is_empty() && self.again.is_empty() {
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
            // The worker is found before the piece is made, which copies its arguments.
            let Some(place) = self.worker()? else {
                return Ok(());
            };
            let now = Instant::now();
            let due = |piece: &Piece<T, M>| piece.due.is_none_or(|due| due <= now);
            let piece = match self.again.iter().position(due) {
                Some(again) => Some(self.again.swap_remove(again)),
                None => source()?,
            };
            let Some(mut piece) = piece else {
                // Others may need the workers that are free.
                self.give_back();
                return Ok(());
            };
            piece.due = None;
            let Some(Some(taken)) = self.taken.get_mut(place) else {
                return Ok(());
            };
            if taken.pieces > 0 && piece.batch.is_alone() {
                // Such a piece would run beside the one that the worker has.
                self.again.push(piece);
                return Ok(());
            }
            taken.pieces += 1;
            let process = taken.worker.process();
            self.calls.push(piece.batch.call(&self.runtime, process));
            self.busy.push(Busy {
                taken: place,
                process,
                piece,
                begun: now,
            });
        }
    }

    /// The place of a worker for the next piece, if there is one: a free one, or else one that can have a piece ahead. Waits for one if no
    /// call is in flight.
    fn worker(&mut self) -> Result<Option<usize>, PoolError> {
        let place =
            |it: &dyn Fn(&Taken) -> bool| self.taken.iter().position(|taken| taken.as_ref().is_some_and(it));
        if let Some(free) = place(&|taken| taken.pieces == 0) {
            return Ok(Some(free));
        }
        let ahead = place(&|taken| taken.pieces == 1 && taken.is_short);
        let is_first = self.calls.is_empty();
        if !is_first && !self.pool.is_ready()? {
            return Ok(ahead);
        }
        let taken = match is_first {
            true => self.pool.take(),
            false => self.pool.take_timeout(Duration::ZERO),
        };
        match taken {
            Ok(worker) => {
                self.taken.push(Some(Taken {
                    worker,
                    pieces: 0,
                    is_short: false,
                    last_end: None,
                    died_at: None,
                }));
                Ok(Some(self.taken.len() - 1))
            }
            Err(PoolError::Busy { .. } | PoolError::NoWorker) if !is_first => Ok(ahead),
            Err(error) => Err(error),
        }
    }

    /// Gives free workers back to the pool.
    fn give_back(&mut self) {
        for taken in &mut self.taken {
            drop(taken.take_if(|taken| taken.pieces == 0));
        }
    }

    /// The call at this place has ended. `None` if another worker gets the piece.
    fn ended(&mut self, place: usize) -> Option<Done<T, M>> {
        let (call, mut busy) = (self.calls.swap_remove(place), self.busy.swap_remove(place));
        let outcomes = call.outcomes(&self.runtime, busy.process);
        let is_dead = outcomes.as_ref().is_err_and(is_of_worker);
        if is_dead && self.is_first(&busy) {
            busy.piece.deaths += 1;
        }
        let took = self.worker_ended(&busy, is_dead);
        if is_dead && busy.piece.deaths < DEATHS_MAX {
            self.again.push(busy.piece);
            return None;
        }
        let meaning = busy.piece.meaning;
        Some(Done {
            meaning,
            outcomes,
            took,
        })
    }

    /// Whether a worker that has died was at this piece, and not at one before it.
    fn is_first(&mut self, busy: &Busy<T, M>) -> bool {
        let others = self.busy.iter().filter(|other| other.taken == busy.taken);
        let first = others.map(|other| other.begun).chain([busy.begun]).min();
        let taken = self.taken.get_mut(busy.taken).and_then(Option::as_mut);
        let died_at = taken
            .and_then(|taken| Some(*taken.died_at.get_or_insert(first?)))
            .or(first);
        died_at == Some(busy.begun)
    }

    /// A worker has one piece less. Returns the time that it has worked at it.
    fn worker_ended(&mut self, busy: &Busy<T, M>, is_dead: bool) -> Duration {
        let now = Instant::now();
        let mut took = now.saturating_duration_since(busy.begun);
        let Some(place) = self.taken.get_mut(busy.taken) else {
            return took;
        };
        let Some(taken) = place else { return took };
        if let Some(end) = taken.last_end.filter(|end| *end > busy.begun) {
            took = now.saturating_duration_since(end);
        }
        (taken.is_short, taken.last_end) = (took < SHORT && !is_dead, Some(now));
        taken.pieces = taken.pieces.saturating_sub(1);
        if let Some(dead) = place.take_if(|taken| is_dead && taken.pieces == 0) {
            dead.worker.remove();
        }
        took
    }

    /// Waits without calls in flight.
    fn pause(&mut self, wait: Duration) -> Result<(), PoolError> {
        self.give_back();
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
