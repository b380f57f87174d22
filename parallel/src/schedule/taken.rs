//! The workers that a schedule has taken from its pool.

use std::time::{Duration, Instant};

use crate::pool::PoolWorker;

/// The time of a piece that is short: then the worker gets others ahead.
const SHORT: Duration = Duration::from_millis(2);

/// The pieces that a worker has at most: together they take longer than the scheduler of the system lets one thread have a core.
const PIECES_MAX: usize = 4;

/// The time for which a worker is kept from others who wait for one of the pool. It works nothing while it is passed on.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// A worker that was taken from the pool.
pub(super) struct Taken {
    pub(super) worker: PoolWorker,
    /// The pieces that it has: one, and others ahead.
    pieces: usize,
    /// Whether the piece that was given last has to be the only one.
    has_single: bool,
    /// Whether the last piece was short.
    is_short: bool,
    /// The end of the last piece.
    last_end: Option<Instant>,
    /// The moment at which it was taken.
    pub(super) since: Instant,
}

impl Taken {
    fn new(worker: PoolWorker) -> Self {
        Taken {
            worker,
            pieces: 0,
            has_single: false,
            is_short: false,
            last_end: None,
            since: Instant::now(),
        }
    }

    /// Whether the worker can have a piece, which may have to be the only one.
    pub(super) fn takes(&self, is_single: bool) -> bool {
        self.pieces == 0 || !is_single
    }

    /// The worker gets a piece.
    pub(super) fn begin(&mut self, is_single: bool) {
        self.pieces += 1;
        self.has_single = is_single;
    }

    /// Whether the worker gets another piece beside those that it has.
    fn has_room(&self) -> bool {
        self.pieces < PIECES_MAX && !self.has_single && self.is_short && self.is_ours()
    }

    /// Whether the worker is this map's for a while longer. After that, others that wait for a worker of the pool may have the worker.
    fn is_ours(&self) -> bool {
        self.since.elapsed() < TURN
    }

    /// A piece that was begun at this moment has ended. Returns the time that the worker has worked at it.
    fn ended(&mut self, begun: Instant, is_lost: bool) -> Duration {
        let now = Instant::now();
        let begun = self.last_end.map_or(begun, |end| end.max(begun));
        let took = now.saturating_duration_since(begun);
        (self.is_short, self.last_end) = (took < SHORT && !is_lost, Some(now));
        self.pieces = self.pieces.saturating_sub(1);
        took
    }
}

/// The workers that were taken, each at a place of its own. A worker leaves only when it has no piece, so no piece names the place that it leaves:
/// the next worker gets that place.
#[derive(Default)]
pub(super) struct TakenWorkers {
    /// `None` for a worker that has left.
    pub(super) places: Vec<Option<Taken>>,
}

impl TakenWorkers {
    /// Adds a worker. Returns its place.
    pub(super) fn add(&mut self, worker: PoolWorker) -> usize {
        let taken = Some(Taken::new(worker));
        let left = self.places.iter().position(Option::is_none);
        let place = left.unwrap_or(self.places.len());
        match self.places.get_mut(place) {
            Some(left) => *left = taken,
            None => self.places.push(taken),
        }
        place
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Taken> {
        self.places.get_mut(place)?.as_mut()
    }

    /// The place of a worker that has no piece.
    pub(super) fn free(&self) -> Option<usize> {
        let is_free = |taken: &Taken| taken.pieces == 0;
        let mut places = self.places.iter();
        places.position(|taken| taken.as_ref().is_some_and(is_free))
    }

    /// The place of the worker with the fewest pieces which can have another one ahead.
    pub(super) fn ahead(&self) -> Option<usize> {
        let places = self.places.iter().enumerate().filter_map(|(place, taken)| {
            let taken = taken.as_ref().filter(|taken| taken.has_room())?;
            Some((taken.pieces, place))
        });
        places.min().map(|(_, place)| place)
    }

    /// Gives free workers back to the pool whose turn is over.
    pub(super) fn give_back_turns(&mut self) {
        for taken in &mut self.places {
            drop(taken.take_if(|taken| taken.pieces == 0 && !taken.is_ours()));
        }
    }

    /// Gives free workers back to the pool.
    pub(super) fn give_back(&mut self) {
        for taken in &mut self.places {
            drop(taken.take_if(|taken| taken.pieces == 0));
        }
    }

    /// The worker at this place has one piece less, which was begun at this moment. Returns the time that it has worked at the piece, and the worker
    /// itself if it is lost and has none left.
    pub(super) fn ended(
        &mut self,
        place: usize,
        begun: Instant,
        is_lost: bool,
    ) -> (Duration, Option<PoolWorker>) {
        let mut took = begun.elapsed();
        let lost = self.places.get_mut(place).and_then(|slot| {
            took = slot.as_mut()?.ended(begun, is_lost);
            slot.take_if(|taken| is_lost && taken.pieces == 0)
        });
        (took, lost.map(|lost| lost.worker))
    }
}
