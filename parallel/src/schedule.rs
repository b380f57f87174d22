//! The distribution of work over the workers of a pool: each free worker gets the next piece.
//!
//! A worker whose last piece was short gets others while it works, so that it does not wait for its caller in between: on a machine whose
//! cores all work, the caller gets a core only now and then. It does one after the other.

mod due_queue;
mod taken;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use selvedge_channels::Wire;
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{
    BatchCall, CallBatch, CallError, Ran, RemoteChannel, RemoteChannelError, RemoteError, Runtime,
};

use crate::error::{MapError, PoolError};
use crate::pool::{Pool, PoolWorker, TAKE_TIMEOUT};
use due_queue::DueQueue;
use taken::TakenWorkers;

/// The workers that may die of a piece before it fails.
const DEATHS_MAX: usize = 3;

/// The wait for a worker that is free, in a process that is not the pool's home.
const HOP: Duration = Duration::from_millis(100);

/// Calls that one worker makes, with what belongs to them.
pub(crate) struct Piece<T, M> {
    pub(crate) batch: CallBatch<T>,
    pub(crate) meaning: M,
    /// The moment before which it is not begun.
    due: Option<Instant>,
    /// The workers that have died of it.
    deaths: usize,
    /// The error of its call when a worker has died that had it: then a worker has no other piece beside it.
    death: Option<CallError>,
}

impl<T: Wire, M> Piece<T, M> {
    pub(crate) fn new(batch: CallBatch<T>, meaning: M, due: Option<Instant>) -> Self {
        Piece {
            batch,
            meaning,
            due,
            deaths: 0,
            death: None,
        }
    }

    /// Whether a worker has no other piece beside it: its call would not wait for its turn, or a worker has died of it.
    fn is_single(&self) -> bool {
        self.batch.is_alone() || self.death.is_some()
    }
}

/// A piece that a worker has.
struct Busy<T, M> {
    /// The place of the worker.
    taken: usize,
    process: ProcessId,
    piece: Piece<T, M>,
    begun: Instant,
    /// Whether the worker had another piece meanwhile.
    is_shared: bool,
}

/// Work that is being done. The drop cancels what is in flight.
pub(crate) struct Schedule<'a, T, M> {
    pool: &'a Pool,
    runtime: Runtime,
    /// The time for all work, and its end.
    deadline: Option<(Duration, Instant)>,
    /// The longest wait for the first worker, which is also the longest time until a wait for another one finds that none lives.
    patience: Duration,
    /// Whether a worker has had a piece: work that has begun goes on when others give a worker back.
    has_begun: bool,
    /// The call of each piece that a worker has. The drop cancels them, before the workers go back.
    calls: Vec<BatchCall<T>>,
    busy: Vec<Busy<T, M>>,
    taken: TakenWorkers,
    /// Workers that this process cannot reach. They go back in the end, for others.
    aside: Vec<PoolWorker>,
    /// Pieces that are begun before others come from the source.
    again: DueQueue<Piece<T, M>>,
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
    pub(crate) fn new(pool: &'a Pool, runtime: Runtime, deadline: Option<Duration>) -> Self {
        // A time that no clock reaches is no limit.
        let deadline = deadline.and_then(|time| Some((time, Instant::now().checked_add(time)?)));
        Schedule {
            pool,
            runtime,
            deadline,
            patience: TAKE_TIMEOUT,
            has_begun: false,
            calls: Vec::new(),
            busy: Vec::new(),
            taken: TakenWorkers::default(),
            aside: Vec::new(),
            again: DueQueue::default(),
            pause: None,
        }
    }

    /// Adds a piece that is to be done before those that the source has left.
    pub(crate) fn push(&mut self, piece: Piece<T, M>) {
        self.again.push(piece.due, piece);
    }

    /// Gives pieces to workers, and waits for the end of one. `None` if there is none left.
    pub(crate) fn next(
        &mut self,
        source: &mut impl FnMut() -> Result<Option<Piece<T, M>>, MapError>,
    ) -> Result<Option<Done<T, M>>, MapError> {
        loop {
            if let Err(error) = self.begin(source) {
                return self.without_worker(error).map(Some);
            }
            self.check_deadline()?;
            let now = Instant::now();
            // What is overdue waits for a worker; if no call is in flight, it has become due just now.
            let until = match self.calls.is_empty() {
                true => self.again.first_due(now),
                false => self.again.next_due(now),
            };
            if self.calls.is_empty() && self.again.is_empty() {
                return Ok(None);
            }
            let until = until.into_iter().chain(self.deadline.map(|(_, end)| end)).min();
            let wait = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
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

    /// No piece could be begun. If no worker lives, and one has died of a piece, that death is the end of the piece: it says more than that
    /// none lives. Of several such pieces it is the one of which most have died.
    fn without_worker(&mut self, error: MapError) -> Result<Done<T, M>, MapError> {
        let MapError::Pool(PoolError::NoWorker) = error else {
            return Err(error);
        };
        let deaths = |piece: &Piece<T, M>| piece.death.is_some().then_some(piece.deaths);
        let died_of = self.again.take_highest(deaths);
        let named = died_of.and_then(|piece| Some((piece.meaning, piece.death?)));
        let (meaning, death) = named.ok_or(error)?;
        let (outcomes, took) = (Err(death), Duration::ZERO);
        Ok(Done {
            meaning,
            outcomes,
            took,
        })
    }

    /// Ends the work if its time is over.
    fn check_deadline(&self) -> Result<(), MapError> {
        match self.deadline {
            Some((time, end)) if Instant::now() >= end => Err(MapError::Deadline(time)),
            _ => Ok(()),
        }
    }

    /// Takes a worker while no call is in flight. Work that has begun waits as long as a worker lives and the deadline has not passed: the pool wakes
    /// it when a worker goes back.
    ///
    /// Work that has not begun waits no longer than its patience. So functions that hold all workers of a pool and have the pool work for them
    /// do not wait for each other without end: the work of the one that took the last worker has not begun.
    fn first_worker(&self) -> Result<PoolWorker, PoolError> {
        loop {
            let left = self
                .deadline
                .map(|(_, end)| end.saturating_duration_since(Instant::now()));
            let wait = left.map_or(self.patience, |left| left.min(self.patience));
            match self.pool.take_timeout(wait) {
                Err(PoolError::Busy { .. }) if self.has_begun && left.is_none_or(|left| !left.is_zero()) => {}
                found => return found,
            }
        }
    }

    /// Begins pieces as long as there are workers for them.
    fn begin(
        &mut self,
        source: &mut impl FnMut() -> Result<Option<Piece<T, M>>, MapError>,
    ) -> Result<(), MapError> {
        if self.calls.is_empty() && self.again.is_empty() {
            // Nobody waits for a worker in vain.
            let Some(first) = source()? else { return Ok(()) };
            self.push(first);
        }
        loop {
            // The worker is found before the piece is made, which copies its arguments.
            let found = self.worker();
            if matches!(found, Err(PoolError::Busy { .. })) {
                self.check_deadline()?;
            }
            let Some(place) = found? else {
                return Ok(());
            };
            let piece = match self.again.pop_due(Instant::now()) {
                Some(again) => Some(again),
                None => source()?,
            };
            let Some(mut piece) = piece else {
                // Others may need the workers that are free.
                self.taken.give_back();
                return Ok(());
            };
            piece.due = None;
            if !self.give(place, piece) {
                return Ok(());
            }
        }
    }

    /// Gives a piece to the worker at this place. Returns whether the worker takes it; else it comes later.
    fn give(&mut self, place: usize, piece: Piece<T, M>) -> bool {
        match self.taken.get_mut(place) {
            // A piece that is alone would run beside the one that the worker has.
            Some(taken) if taken.takes(piece.is_single()) => {
                let others = self.busy.iter_mut().filter(|other| other.taken == place);
                let is_shared = others.map(|other| other.is_shared = true).count() > 0;
                taken.begin(piece.is_single());
                self.has_begun = true;
                let process = taken.worker.process();
                self.calls.push(piece.batch.call(&self.runtime, process));
                self.busy.push(Busy {
                    taken: place,
                    process,
                    piece,
                    begun: Instant::now(),
                    is_shared,
                });
                true
            }
            _ => {
                self.push(piece);
                false
            }
        }
    }

    /// The place of a worker for the next piece, if there is one: a free one, or else that with the fewest pieces which can have another one
    /// ahead. Waits for one if no call is in flight.
    fn worker(&mut self) -> Result<Option<usize>, PoolError> {
        self.taken.give_back_turns();
        if let Some(free) = self.taken.free() {
            return Ok(Some(free));
        }
        let ahead = self.taken.ahead();
        let is_first = self.calls.is_empty();
        if !is_first && !self.pool.is_offered()? {
            return Ok(ahead);
        }
        let taken = match is_first {
            true => self.first_worker(),
            false if self.pool.is_home(&self.runtime) => self.pool.take_timeout(Duration::ZERO),
            false => self.pool.take_timeout(HOP),
        };
        match taken {
            Ok(worker) => Ok(Some(self.taken.add(worker))),
            Err(PoolError::Busy { .. } | PoolError::NoWorker) if !is_first => Ok(ahead),
            Err(error) => Err(error),
        }
    }

    /// The call at this place has ended. `None` if another worker gets the piece.
    fn ended(&mut self, place: usize) -> Option<Done<T, M>> {
        let (call, mut busy) = (self.calls.swap_remove(place), self.busy.swap_remove(place));
        let outcomes = call.outcomes(&self.runtime, busy.process);
        let loss = outcomes.as_ref().err().and_then(Loss::of);
        if loss == Some(Loss::Died(Ran::Unknown)) {
            // Of several pieces, nobody knows which one it was.
            busy.piece.deaths += usize::from(!busy.is_shared);
            busy.piece.death = outcomes.as_ref().err().cloned();
        }
        let took = self.worker_ended(&busy, loss);
        if loss.is_some() && busy.piece.deaths < DEATHS_MAX {
            self.push(busy.piece);
            return None;
        }
        let meaning = busy.piece.meaning;
        Some(Done {
            meaning,
            outcomes,
            took,
        })
    }

    /// A worker has one piece less. Returns the time that it has worked at it.
    fn worker_ended(&mut self, busy: &Busy<T, M>, loss: Option<Loss>) -> Duration {
        let (took, lost) = self.taken.ended(busy.taken, busy.begun, loss.is_some());
        match (lost, loss) {
            (Some(lost), Some(Loss::Died(_))) if self.pool.is_alive(&self.runtime) => lost.remove(),
            // The last one goes back, to the next one that waits for a worker, who learns so that none lives.
            (Some(lost), Some(Loss::Died(_))) => drop(lost),
            (Some(lost), _) => self.aside.push(lost),
            (None, _) => {}
        }
        took
    }

    /// Waits without calls in flight.
    fn pause(&mut self, wait: Duration) -> Result<(), PoolError> {
        self.taken.give_back();
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

/// The reason that a worker does nothing for this process any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Died(Ran),
    /// Other processes may reach it.
    Unreached,
}

impl Loss {
    fn of(error: &CallError) -> Option<Self> {
        match error.remote()? {
            RemoteError::Died { ran, .. } => Some(Loss::Died(*ran)),
            RemoteError::NoSuchProcess { .. } | RemoteError::NoLink(_) => Some(Loss::Unreached),
            _ => None,
        }
    }
}
