//! What was dropped while the device may still be busy with it.
//!
//! Dropping never waits. Memory that is dropped is kept beside an event for every stream that has work at that moment, and is
//! given back by whoever next takes or drops memory and finds them all done. So memory outlives everything that was enqueued
//! before it was dropped (`DEV-2`), on the streams of this process that are ours; who uses others orders one of ours behind them.
//! A stream that is dropped with work is one of ours until that is done.

use std::sync::Arc;

use parking_lot::Mutex;

use super::allocation::{Allocation, Pinned};
use super::calls::Calls;
use super::error::DeviceError;
use super::handles::{EventHandle, StreamHandle};
use super::staging::{Staging, pinned};
use super::words::Registered;

/// What is to be given back.
#[derive(Debug)]
pub(super) enum Resource {
    Device(Allocation),
    Host(Pinned),
    Words(Registered),
}

/// Work that was under way at some moment.
#[derive(Default)]
struct Busy {
    ends: Vec<EventHandle>,
    /// The driver had no event to give: until no stream has any work.
    until_idle: bool,
}

#[derive(Default)]
struct State {
    streams: Vec<Arc<StreamHandle>>,
    /// Streams that were dropped with work under way.
    leaving: Vec<Arc<StreamHandle>>,
    waiting: Vec<(Busy, Resource)>,
    staging: Staging,
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
            state: Mutex::default(),
        }
    }

    /// Takes a new stream in.
    pub(super) fn enter(&self, stream: StreamHandle) -> Arc<StreamHandle> {
        let stream = Arc::new(stream);
        self.state.lock().streams.push(Arc::clone(&stream));
        stream
    }

    /// Lets a stream go as soon as its work is done. The context is bound.
    pub(super) fn leave(&self, stream: Arc<StreamHandle>) {
        let mut state = self.state.lock();
        state.streams.retain(|known| !Arc::ptr_eq(known, &stream));
        state.leaving.push(stream);
        let done = self.sweep_locked(&mut state);
        drop(state);
        self.give_back(done);
    }

    /// Looks at a stream no more, which is another library's.
    pub(super) fn forget(&self, stream: &Arc<StreamHandle>) {
        let mut state = self.state.lock();
        state.streams.retain(|known| !Arc::ptr_eq(known, stream));
    }

    /// Pinned memory of the host for so many bytes, to be retired.
    pub(super) fn staging(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        let kept = self.state.lock().staging.take(bytes);
        kept.map_or_else(|| pinned(self.calls, bytes), Ok)
    }

    /// Gives something back as soon as all that is under way now is done. The context is bound.
    pub(super) fn retire(&self, resource: Resource) {
        let mut state = self.state.lock();
        let mut busy = Busy::default();
        for stream in state.streams.iter().chain(&state.leaving) {
            match self.end_of(stream) {
                Ok(end) => busy.ends.extend(end),
                Err(_) => busy.until_idle = true,
            }
        }
        state.waiting.push((busy, resource));
        let done = self.sweep_locked(&mut state);
        drop(state);
        self.give_back(done);
    }

    /// An event at the end of a stream's work; `None` where there is none under way.
    fn end_of(&self, stream: &StreamHandle) -> Result<Option<EventHandle>, DeviceError> {
        if self.is_done(stream) {
            return Ok(None);
        }
        let event = self.calls.event(0)?;
        match self.calls.record(&event, stream) {
            Ok(()) => Ok(Some(event)),
            Err(error) => {
                let _ = self.calls.destroy_event(event);
                Err(error)
            }
        }
    }

    /// A device in trouble is not believed to be done.
    fn is_done(&self, stream: &StreamHandle) -> bool {
        matches!(self.calls.stream_is_done(stream), Ok(true))
    }

    /// Gives back what the device is done with; whether that was all. The context is bound.
    pub(super) fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        let done = self.sweep_locked(&mut state);
        let all = state.waiting.is_empty() && state.leaving.is_empty();
        drop(state);
        self.give_back(done);
        all
    }

    /// Gives back what was kept to be used again. The context is bound.
    pub(super) fn empty(&self) {
        let kept: Vec<_> = self.state.lock().staging.take_all().collect();
        kept.into_iter().for_each(|memory| self.calls.free_pinned(memory));
    }

    /// Takes out what the device is done with, to be given back when the lock is not held: that may wait for the device.
    fn sweep_locked(&self, state: &mut State) -> Vec<Resource> {
        let mut done = Vec::new();
        for (mut busy, resource) in std::mem::take(&mut state.waiting) {
            self.forget_done(&mut busy, state);
            if !busy.ends.is_empty() || busy.until_idle {
                state.waiting.push((busy, resource));
                continue;
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

    fn forget_done(&self, busy: &mut Busy, state: &State) {
        for event in std::mem::take(&mut busy.ends) {
            if matches!(self.calls.event_is_done(&event), Ok(true)) {
                let _ = self.calls.destroy_event(event);
            } else {
                busy.ends.push(event);
            }
        }
        if busy.until_idle {
            let mut streams = state.streams.iter().chain(&state.leaving);
            busy.until_idle = !streams.all(|stream| self.is_done(stream));
        }
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
