//! Resources that are dropped while the device may still use them, and their deferred release.
//!
//! Dropping never waits. Dropped memory is kept together with one event for every stream that has work at that moment.
//! A later allocation or drop of memory releases it once all these events are reached. An allocation that finds no
//! memory waits for them. Therefore memory outlives all
//! work that was enqueued before its drop (`DEV-2`), on all streams of this process that this library knows. A user of
//! other streams must order a known stream behind them. A stream that is dropped with work in flight stays known until
//! that work is done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::allocation::Allocation;
use super::calls::Calls;
use super::error::DeviceError;
use super::handles::{EventHandle, StreamHandle};
use super::host_call::{Done, ring_when_done};
use super::pinned::{Pinned, Registered};
use crate::wait::doorbell::Doorbell;
use crate::wait::waiting::Waiting;

/// A resource whose release is deferred.
#[derive(Debug)]
pub(super) enum Resource {
    Device(Allocation),
    Host(Pinned),
    Words(Registered),
}

/// The ends of the work that was in flight when a resource was retired; `None` as long as they could not be marked.
type Ends = Option<Vec<EventHandle>>;

#[derive(Default)]
struct ReclaimerState {
    streams: Vec<Arc<StreamHandle>>,
    /// Streams that were dropped with work in flight.
    leaving: Vec<Arc<StreamHandle>>,
    /// In the order of retirement, in which they are released: all work that one waits for, the later ones wait for.
    waiting: VecDeque<(Ends, Resource)>,
    staging: Staging,
}

/// The streams of a context, and the resources that wait for them.
pub(super) struct Reclaimer {
    calls: &'static Calls,
    state: Mutex<ReclaimerState>,
}

impl Reclaimer {
    pub(super) fn new(calls: &'static Calls) -> Self {
        Reclaimer {
            calls,
            state: Mutex::default(),
        }
    }

    /// Registers a new stream.
    pub(super) fn enter(&self, stream: StreamHandle) -> Arc<StreamHandle> {
        let stream = Arc::new(stream);
        self.state.lock().streams.push(Arc::clone(&stream));
        stream
    }

    /// Unregisters a dropped stream, and destroys it as soon as its work is done. The context must be bound.
    pub(super) fn leave(&self, stream: Arc<StreamHandle>) {
        let mut state = self.state.lock();
        state.streams.retain(|known| !Arc::ptr_eq(known, &stream));
        state.leaving.push(stream);
        let done = self.take_unused(&mut state);
        drop(state);
        self.give_back(done);
    }

    /// Unregisters a stream of another library, without destroying it.
    pub(super) fn forget(&self, stream: &Arc<StreamHandle>) {
        let mut state = self.state.lock();
        state.streams.retain(|known| !Arc::ptr_eq(known, stream));
    }

    /// Pinned host memory with room for `bytes`. The caller must retire it.
    pub(super) fn staging(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        let kept = self.state.lock().staging.take(bytes);
        kept.map_or_else(|| pinned(self.calls, bytes), Ok)
    }

    /// Releases a resource as soon as all work in flight now is done. The context must be bound.
    pub(super) fn retire(&self, resource: Resource) {
        let mut state = self.state.lock();
        let ends = self.ends(&state);
        state.waiting.push_back((ends, resource));
        let done = self.take_unused(&mut state);
        drop(state);
        self.give_back(done);
    }

    /// Marks the ends of all work that is in flight.
    fn ends(&self, state: &ReclaimerState) -> Ends {
        let mut ends = Vec::new();
        for stream in state.streams.iter().chain(&state.leaving) {
            match self.end_of(stream) {
                Ok(end) => ends.extend(end),
                Err(_) => {
                    for end in ends {
                        let _ = self.calls.destroy_event(end);
                    }
                    return None;
                }
            }
        }
        Some(ends)
    }

    /// Records an event at the end of a stream's work, or returns `None` if the stream is idle.
    fn end_of(&self, stream: &StreamHandle) -> Result<Option<EventHandle>, DeviceError> {
        if self.is_done(stream) {
            return Ok(None);
        }
        let event = self.calls.event(false)?;
        match self.calls.record(&event, stream) {
            Ok(()) => Ok(Some(event)),
            Err(error) => {
                let _ = self.calls.destroy_event(event);
                Err(error)
            }
        }
    }

    /// Whether the work of a stream is done. An error of the device counts as not done.
    fn is_done(&self, stream: &StreamHandle) -> bool {
        matches!(self.calls.stream_is_done(stream), Ok(true))
    }

    /// Releases the resources that the device no longer uses, and returns whether none is left. The context must be
    /// bound.
    pub(super) fn reclaim(&self) -> bool {
        let mut state = self.state.lock();
        let done = self.take_unused(&mut state);
        let all = state.waiting.is_empty() && state.leaving.is_empty();
        drop(state);
        self.give_back(done);
        all
    }

    /// If dropped memory waits for the device, blocks until the device has done that work, for at most `timeout`, and
    /// releases the memory. Returns whether there was such memory. The context must be bound.
    pub(super) fn wait_for_memory(&self, timeout: Duration) -> bool {
        let bell = Doorbell::heap();
        let state = self.state.lock();
        let waiting = |(_, resource): &(Ends, Resource)| matches!(resource, Resource::Device(_));
        if !state.waiting.iter().any(waiting) {
            return false;
        }
        // The events of the dropped memory precede these marks on their streams.
        let marks: Vec<_> = (state.streams.iter().chain(&state.leaving))
            .filter(|stream| !self.is_done(stream))
            .filter_map(|stream| ring_when_done(self.calls, stream, &bell).ok())
            .collect();
        drop(state);
        let deadline = Some(Instant::now() + timeout);
        bell.wait(&Waiting::Park, deadline, || marks.iter().all(Done::has_come));
        self.reclaim();
        true
    }

    /// Frees the memory that is kept for reuse. The context must be bound.
    pub(super) fn empty(&self) {
        let kept: Vec<_> = self.state.lock().staging.take_all().collect();
        kept.into_iter().for_each(|memory| self.calls.free_pinned(memory));
    }

    /// Takes out the resources that the device no longer uses. The caller releases them without the lock, since the
    /// release may wait for the device.
    fn take_unused(&self, state: &mut ReclaimerState) -> Vec<Resource> {
        let mut done = Vec::new();
        while let Some((ends, resource)) = state.waiting.pop_front() {
            let mut ends = ends.or_else(|| self.ends(state));
            if !ends.as_mut().is_some_and(|ends| self.are_reached(ends)) {
                state.waiting.push_front((ends, resource));
                break;
            }
            match resource {
                Resource::Host(memory) => done.extend(state.staging.keep(memory).map(Resource::Host)),
                other => done.push(other),
            }
        }
        for stream in std::mem::take(&mut state.leaving) {
            if !self.is_done(&stream) {
                state.leaving.push(stream);
            } else if let Some(handle) = Arc::into_inner(stream) {
                let _ = self.calls.destroy_stream(handle);
            }
        }
        done
    }

    /// Destroys those of these events that the device has reached, and returns whether these are all.
    fn are_reached(&self, ends: &mut Vec<EventHandle>) -> bool {
        let is_reached = |end: &mut EventHandle| matches!(self.calls.event_is_done(end), Ok(true));
        for end in ends.extract_if(.., is_reached) {
            let _ = self.calls.destroy_event(end);
        }
        ends.is_empty()
    }

    fn give_back(&self, resources: Vec<Resource>) {
        for resource in resources {
            match resource {
                Resource::Device(memory) => self.calls.free(memory),
                Resource::Host(memory) => self.calls.free_pinned(memory),
                Resource::Words(memory) => self.calls.unregister(memory),
            }
        }
    }
}

/// The size of the smallest piece.
const PIECE_BYTES_MIN: usize = 1 << 12;

/// The maximum number of bytes that a context keeps.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The free pieces of pinned host memory for copies, by size. The driver may wait for the device when it allocates or
/// frees such memory. Therefore allocated pieces are kept. Their sizes are powers of two, and each context keeps at most a
/// fixed number of bytes.
#[derive(Default)]
pub(super) struct Staging {
    free: BTreeMap<usize, Vec<Pinned>>,
    kept_bytes: usize,
}

impl Staging {
    /// Takes a kept piece with room for `bytes`, of the size class of `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Pinned> {
        let size = size_of_piece(bytes)?;
        let piece = self.free.get_mut(&size)?.pop()?;
        self.kept_bytes -= piece.capacity();
        Some(piece.of(bytes))
    }

    /// Keeps a piece if the limit allows it, else returns it, and the caller frees it.
    pub(super) fn keep(&mut self, piece: Pinned) -> Option<Pinned> {
        let (bytes, whole) = (piece.capacity(), size_of_piece(piece.capacity()));
        if whole != Some(bytes) || self.kept_bytes.saturating_add(bytes) > KEPT_BYTES_MAX {
            return Some(piece);
        }
        self.kept_bytes += bytes;
        self.free.entry(bytes).or_default().push(piece);
        None
    }

    /// Takes out all kept pieces.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Pinned> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.free).into_values().flatten()
    }
}

/// The size of a piece with room for `bytes`, or `None` if pieces of that size are not kept.
fn size_of_piece(bytes: usize) -> Option<usize> {
    let size = bytes.checked_next_power_of_two()?.max(PIECE_BYTES_MIN);
    (size <= KEPT_BYTES_MAX).then_some(size)
}

/// Allocates a new piece with room for `bytes`.
pub(super) fn pinned(calls: &Calls, bytes: usize) -> Result<Pinned, DeviceError> {
    Ok(calls.pin(size_of_piece(bytes).unwrap_or(bytes))?.of(bytes))
}
