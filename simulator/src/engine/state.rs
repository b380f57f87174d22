//! All streams of the process, under one lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock};

use parking_lot::{Condvar, Mutex};

use super::operation::{Enqueued, Key, Reach, record, wait};
use crate::clock::{Component, Epoch, VectorClock};
use crate::code::{Cu, INVALID_HANDLE};
use crate::point::Point;
use crate::{host, shared};

/// The order of a stream relative to the legacy default stream of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The default stream itself.
    Default,
    /// Ordered with the default stream.
    Blocking,
    /// Not ordered with any other stream.
    NonBlocking,
}

/// One stream.
pub(super) struct Stream {
    pub(super) device: u32,
    pub(super) manner: Manner,
    pub(super) component: Component,
    pub(super) number: u64,
    pub(super) clock: VectorClock,
    pub(super) queue: VecDeque<Enqueued>,
    pub(super) busy: bool,
    pub(super) blocked: Option<(Key, Reach)>,
    pub(super) closing: bool,
    pub(super) enqueued: u64,
    pub(super) finished: u64,
    /// The number of operations of the default stream that this stream is ordered after.
    pub(super) default_seen: u64,
    /// The number of operations of this stream that the default stream is ordered after.
    pub(super) seen_by_default: u64,
    pub(super) wake: Arc<Condvar>,
}

impl Stream {
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }
}

/// All streams of the process.
#[derive(Default)]
pub(super) struct State {
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) defaults: HashMap<u32, u64>,
    pub(super) components: u32,
    /// The components of streams that have ended, each with its last number.
    pub(super) gone: Vec<Epoch>,
}

pub(super) static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
/// Notifies hosts when an operation ends, or a stream blocks or is unblocked.
pub(super) static CHANGED: Condvar = Condvar::new();

/// The state of a process in which no operation can proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Drained,
    Stuck,
    /// No stream of this process can proceed, but another process may end a wait.
    Outside,
}

impl State {
    pub(super) fn stream(&mut self, handle: u64) -> Cu<&mut Stream> {
        self.streams.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    /// Returns a component for a new stream. The component of an ended stream is reused once a host has seen all of
    /// that stream.
    pub(super) fn component(&mut self) -> Epoch {
        if let Some(index) = self
            .gone
            .iter()
            .position(|epoch| epoch.number == 0 || host::has_seen(*epoch))
        {
            return self.gone.swap_remove(index);
        }
        self.components += 1;
        Epoch {
            component: Component::new(std::process::id(), self.components),
            number: 0,
        }
    }

    pub(super) fn push(&mut self, handle: u64, enqueued: Enqueued) {
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.queue.push_back(enqueued);
            stream.enqueued += 1;
            stream.wake.notify_all();
        }
    }

    /// Orders one stream after all operations in another.
    fn join(&mut self, waits: u64, behind: u64) {
        let point = Point::new();
        self.push(behind, Enqueued::now(record(&point, "legacy order, record")));
        self.push(waits, Enqueued::now(wait(point, "legacy order, wait")));
    }

    /// Adds the order that the legacy default stream keeps with blocking streams.
    pub(super) fn order_with_default(&mut self, handle: u64) {
        let Some(stream) = self.streams.get(&handle) else {
            return;
        };
        let (device, manner) = (stream.device, stream.manner);
        match manner {
            Manner::NonBlocking => {}
            Manner::Blocking => {
                let Some(default) = self.defaults.get(&device).copied() else {
                    return;
                };
                let done = self.streams.get(&default).map_or(0, |stream| stream.enqueued);
                if self
                    .streams
                    .get(&handle)
                    .is_some_and(|stream| stream.default_seen < done)
                {
                    self.join(handle, default);
                    if let Some(stream) = self.streams.get_mut(&handle) {
                        stream.default_seen = done + 1;
                    }
                }
            }
            Manner::Default => {
                let unseen = |stream: &Stream| {
                    stream.device == device
                        && stream.manner == Manner::Blocking
                        && stream.seen_by_default < stream.enqueued
                };
                let others: Vec<u64> = self
                    .streams
                    .iter()
                    .filter(|(_, one)| unseen(one))
                    .map(|(other, _)| *other)
                    .collect();
                for other in others {
                    self.join(handle, other);
                    if let Some(stream) = self.streams.get_mut(&other) {
                        stream.seen_by_default = stream.enqueued;
                    }
                }
            }
        }
    }

    pub(super) fn settled(&self) -> Option<Settled> {
        let mut waiting = self
            .streams
            .values()
            .filter(|stream| !stream.is_idle())
            .peekable();
        if waiting.peek().is_none() {
            return Some(Settled::Drained);
        }
        let mut outside = false;
        for stream in waiting {
            let (_, reach) = stream.blocked?;
            outside |= reach == Reach::Outside;
        }
        Some(if outside { Settled::Outside } else { Settled::Stuck })
    }
}

/// Reports that something that streams may wait for has changed.
pub(crate) fn notify(key: Key) {
    notify_in(&mut STATE.lock(), key);
}

/// Reports a change in shared memory by ringing its word. Ringing and unblocking are one step under the lock: else a
/// stream that has seen the new word and blocked again would be unblocked and counted as still about to look.
pub(crate) fn ring(word: &AtomicU32, key: Key) {
    let mut state = STATE.lock();
    shared::ring(word);
    notify_in(&mut state, key);
}

fn notify_in(state: &mut State, key: Key) {
    for stream in state.streams.values_mut() {
        if stream.blocked.is_some_and(|(waits_for, _)| waits_for == key) {
            stream.blocked = None;
            stream.wake.notify_all();
        }
    }
    CHANGED.notify_all();
}

/// Blocks until all operations are done or none can proceed. Hosts must enqueue their operations before.
pub(crate) fn settle() -> Settled {
    let mut state = STATE.lock();
    // The host may have written words before this call: streams that wait for words look again.
    notify_in(&mut state, Key::Words);
    loop {
        if let Some(settled) = state.settled() {
            return settled;
        }
        CHANGED.wait(&mut state);
    }
}

/// Returns the state if all operations are done or none can proceed; `None` while an operation can proceed.
pub(crate) fn settled() -> Option<Settled> {
    STATE.lock().settled()
}
