//! The calls of hosts on streams.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::operation::{Enqueued, Operation};
use super::state::{CHANGED, Manner, STATE, Stream};
use super::turn;
use crate::clock::{Epoch, VectorClock};
use crate::code::{Cu, INVALID_HANDLE, OUT_OF_MEMORY};
use crate::host;
use crate::point::Point;

static THREADS: LazyLock<Mutex<HashMap<u64, JoinHandle<()>>>> = LazyLock::new(Mutex::default);

/// The properties of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) device: u32,
}

/// Creates a stream and its thread.
pub(crate) fn create(device: u32, manner: Manner) -> Cu<u64> {
    let handle = host::fresh_handle();
    let wake = Arc::new(Condvar::new());
    let mut state = STATE.lock();
    let Epoch { component, number } = state.component();
    let stream = Stream {
        device,
        manner,
        component,
        number,
        clock: VectorClock::default(),
        queue: VecDeque::new(),
        busy: false,
        blocked: None,
        closing: false,
        enqueued: 0,
        finished: 0,
        default_seen: 0,
        seen_by_default: 0,
        wake,
    };
    state.streams.insert(handle, stream);
    let started = thread::Builder::new()
        .name("sim-stream".into())
        .spawn(move || turn::live(handle));
    let Ok(thread) = started else {
        state.streams.remove(&handle);
        return Err(OUT_OF_MEMORY);
    };
    drop(state);
    THREADS.lock().insert(handle, thread);
    Ok(handle)
}

/// Returns the default stream of a device.
pub(crate) fn default_of(device: u32) -> Cu<u64> {
    if let Some(handle) = STATE.lock().defaults.get(&device) {
        return Ok(*handle);
    }
    let handle = create(device, Manner::Default)?;
    let first = *STATE.lock().defaults.entry(device).or_insert(handle);
    if first != handle {
        destroy(handle)?;
    }
    Ok(first)
}

/// Closes a stream, which ends when its queue is empty. Joins its thread if the stream is idle now.
pub(crate) fn destroy(handle: u64) -> Cu {
    let idle = {
        let mut state = STATE.lock();
        let stream = state.stream(handle)?;
        if stream.closing {
            return Err(INVALID_HANDLE);
        }
        stream.closing = true;
        stream.wake.notify_all();
        stream.is_idle()
    };
    let mut threads = THREADS.lock();
    let mut over: Vec<JoinHandle<()>> = threads
        .extract_if(|_, thread| thread.is_finished())
        .map(|(_, thread)| thread)
        .collect();
    if idle {
        over.extend(threads.remove(&handle));
    }
    drop(threads);
    for thread in over
        .into_iter()
        .filter(|one| one.thread().id() != thread::current().id())
    {
        // Stream threads do not panic; if one did, it has ended all the same.
        let _ = thread.join();
    }
    Ok(())
}

/// Closes all streams of a device, whose context is gone.
pub(crate) fn destroy_all(device: u32) {
    let handles: Vec<u64> = {
        let mut state = STATE.lock();
        state.defaults.remove(&device);
        let of_device = state
            .streams
            .iter()
            .filter(|(_, stream)| stream.device == device && !stream.closing);
        of_device.map(|(handle, _)| *handle).collect()
    };
    for handle in handles {
        let _ = destroy(handle);
    }
}

/// Returns the properties of a stream.
pub(crate) fn about(handle: u64) -> Cu<About> {
    let mut state = STATE.lock();
    let stream = state.stream(handle)?;
    Ok(About {
        device: stream.device,
    })
}

/// Appends an operation to a stream's queue.
pub(crate) fn enqueue(handle: u64, operation: Operation) -> Cu {
    let enqueued = Enqueued::now(operation);
    let mut state = STATE.lock();
    if state.stream(handle)?.closing {
        return Err(INVALID_HANDLE);
    }
    state.order_with_default(handle);
    state.push(handle, enqueued);
    Ok(())
}

/// Whether a stream has done all its operations; if so, the host has seen them.
pub(crate) fn query(handle: u64) -> Cu<bool> {
    let clock = {
        let mut state = STATE.lock();
        let stream = state.stream(handle)?;
        if !stream.is_idle() {
            return Ok(false);
        }
        stream.clock.clone()
    };
    host::observe(&clock);
    Ok(true)
}

/// Blocks the host until a stream has done the operations that it has now.
pub(crate) fn synchronize(handle: u64) -> Cu {
    let mut state = STATE.lock();
    if state.stream(handle)?.manner == Manner::Default {
        state.order_with_default(handle);
    }
    let upto = state.stream(handle)?.enqueued;
    loop {
        // A stream that was destroyed and has ended in the meantime has done all its operations.
        let Some(stream) = state.streams.get(&handle) else {
            return Ok(());
        };
        if stream.finished >= upto {
            let clock = stream.clock.clone();
            drop(state);
            host::observe(&clock);
            return Ok(());
        }
        CHANGED.wait(&mut state);
    }
}

/// Returns the streams of a device.
pub(crate) fn handles(device: u32) -> Vec<u64> {
    let state = STATE.lock();
    let of = state.streams.iter().filter(|(_, stream)| stream.device == device);
    of.map(|(handle, _)| *handle).collect()
}

/// Blocks the host until a point is reached.
pub(crate) fn wait_on_host(point: &Point) {
    let mut state = STATE.lock();
    while !point.is_reached() {
        CHANGED.wait(&mut state);
    }
}
