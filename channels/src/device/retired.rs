//! What was dropped while the device may still be busy with it.
//!
//! Dropping never waits. Memory that is dropped is kept beside an event for every stream that has work at that moment, and is
//! given back by whoever next takes or drops memory and finds them all done. So memory outlives everything that was enqueued
//! before it was dropped (`DEV-2`), on the streams of this process that are ours; who uses others orders one of ours behind them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::allocation::{Allocation, Pinned};
use super::calls::Calls;
use super::handles::{EventHandle, StreamHandle};

/// What is to be given back.
#[derive(Debug)]
pub(super) enum Resource {
    Device(Allocation),
    Host(Pinned),
}

/// Work that was under way at some moment.
type Busy = Vec<Arc<EventHandle>>;

struct State {
    streams: Vec<Arc<StreamHandle>>,
    /// The ends of streams that are gone and had work.
    lingering: Busy,
    waiting: Vec<(Busy, Resource)>,
}

/// The streams of a context, and what waits for them.
pub(super) struct Retired {
    calls: &'static Calls,
    state: Mutex<State>,
}

impl Retired {
    pub(super) fn new(calls: &'static Calls) -> Self {
        Retired {
            calls,
            state: Mutex::new(State {
                streams: Vec::new(),
                lingering: Vec::new(),
                waiting: Vec::new(),
            }),
        }
    }

    /// Takes a new stream in.
    pub(super) fn enter(&self, stream: StreamHandle) -> Arc<StreamHandle> {
        let stream = Arc::new(stream);
        self.state.lock().streams.push(Arc::clone(&stream));
        stream
    }

    /// Lets a stream go; its work goes on.
    pub(super) fn leave(&self, stream: Arc<StreamHandle>) {
        let mut state = self.state.lock();
        if let Some(end) = self.end_of(&stream) {
            state.lingering.push(end);
        }
        state.streams.retain(|known| !Arc::ptr_eq(known, &stream));
        if let Some(handle) = Arc::into_inner(stream) {
            let _ = self.calls.destroy_stream(handle);
        }
    }

    /// An event at the end of a stream's work; `None` where there is none under way, or the driver has lost it all.
    fn end_of(&self, stream: &StreamHandle) -> Option<Arc<EventHandle>> {
        if self.calls.stream_is_done(stream) != Ok(false) {
            return None;
        }
        let event = self.calls.event(0).ok()?;
        if self.calls.record(&event, stream).is_err() {
            let _ = self.calls.destroy_event(event);
            return None;
        }
        Some(Arc::new(event))
    }

    /// Gives something back as soon as all that is under way now is done. The context is bound.
    pub(super) fn retire(&self, resource: Resource) {
        let mut state = self.state.lock();
        let mut busy: Busy = state
            .streams
            .iter()
            .filter_map(|stream| self.end_of(stream))
            .collect();
        busy.extend(state.lingering.iter().cloned());
        state.waiting.push((busy, resource));
        self.sweep_locked(&mut state);
    }

    /// Gives back what the device is done with; whether that was all. The context is bound.
    pub(super) fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        self.sweep_locked(&mut state);
        state.waiting.is_empty() && state.lingering.is_empty()
    }

    fn sweep_locked(&self, state: &mut State) {
        let waiting = std::mem::take(&mut state.waiting);
        for (mut busy, resource) in waiting {
            self.forget_done(&mut busy);
            if busy.is_empty() {
                self.give_back(resource);
            } else {
                state.waiting.push((busy, resource));
            }
        }
        self.forget_done(&mut state.lingering);
    }

    fn forget_done(&self, busy: &mut Busy) {
        let events = std::mem::take(busy);
        for event in events {
            // After an error of the device nothing runs any more.
            if matches!(self.calls.event_is_done(&event), Ok(false)) {
                busy.push(event);
            } else if let Some(event) = Arc::into_inner(event) {
                let _ = self.calls.destroy_event(event);
            }
        }
    }

    fn give_back(&self, resource: Resource) {
        match resource {
            Resource::Device(memory) => self.calls.free(memory),
            Resource::Host(memory) => self.calls.free_pinned(memory),
        }
    }
}
