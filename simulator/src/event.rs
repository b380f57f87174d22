//! Events: the last record, and whether it has been reached.
//!
//! A wait is for the last record that was *called*, so a record gets its number on the host, and the stream completes
//! it. An event between processes keeps its last records in shared memory. A recorder that was killed completes no
//! record, as with real devices: a stream that waits for it waits on.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::clock::VectorClock;
use crate::code::{Cu, INVALID_HANDLE, INVALID_VALUE, NOT_READY, OUT_OF_MEMORY};
use crate::engine::{self, Key, Operation, Reach, Turn};
use crate::host;
use crate::ledger::{self, CLOCK_BYTES};
use crate::point::Point;
use crate::shared::{self, Address, HEADER_BYTES, Shared};

pub(crate) const DISABLE_TIMING: u32 = 2;
pub(crate) const INTERPROCESS: u32 = 4;

/// The number of records that an event between processes keeps. An older record counts as reached.
const RECORDS: u64 = 64;
const WORD_AT: usize = HEADER_BYTES;
const RECORDED_AT: usize = HEADER_BYTES + 8;
const FIRST_RECORD_AT: usize = 4096;
const RECORD_BYTES: usize = 64 + CLOCK_BYTES;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// True if the event was opened from another process's handle.
    pub(crate) opened: bool,
    /// The points recorded by this process, with their numbers. An event of one process keeps only the last.
    recorded: Mutex<VecDeque<(u64, Arc<Point>)>>,
    shared: Option<Arc<Records>>,
}

static EVENTS: LazyLock<Mutex<HashMap<u64, Arc<Event>>>> = LazyLock::new(Mutex::default);

/// The records of an event, in shared memory.
#[derive(Debug)]
struct Records(Shared);

impl Records {
    fn create() -> Cu<Self> {
        let len = FIRST_RECORD_AT + RECORD_BYTES * RECORDS as usize;
        Shared::create(len).map(Records).map_err(|_| OUT_OF_MEMORY)
    }

    fn at(number: u64) -> usize {
        FIRST_RECORD_AT + (number % RECORDS) as usize * RECORD_BYTES
    }

    /// Begins a record and returns its number.
    fn begin(&self) -> u64 {
        let _guard = self.0.lock(true);
        let number = self.0.get::<u64>(RECORDED_AT) + 1;
        self.0.set(Self::at(number) + 8, 0_u64);
        self.0.set(Self::at(number), number);
        self.0.set(RECORDED_AT, number);
        number
    }

    fn complete(&self, number: u64, clock: &VectorClock) {
        {
            let _guard = self.0.lock(true);
            let at = Self::at(number);
            if self.0.get::<u64>(at) == number {
                ledger::set_clock(&self.0, at + 64, clock);
                self.0.set(at + 8, 1_u64);
            }
        }
        if let Some(word) = self.0.word(WORD_AT) {
            engine::ring(word, self.key());
        }
    }

    fn last(&self) -> u64 {
        let _guard = self.0.lock(true);
        self.0.get(RECORDED_AT)
    }

    fn reached(&self, number: u64) -> Option<VectorClock> {
        let _guard = self.0.lock(true);
        let at = Self::at(number);
        let overwritten = self.0.get::<u64>(at) != number;
        let done = self.0.get::<u64>(at + 8) == 1;
        match done {
            true => Some(ledger::clock(&self.0, at + 64)),
            false => overwritten.then(VectorClock::default),
        }
    }

    fn key(&self) -> Key {
        Key::Shared(self.0.address().nonce)
    }

    /// Blocks the host until a record is reached.
    fn wait_on_host(&self, number: u64) -> Option<VectorClock> {
        let word = self.0.word(WORD_AT)?;
        loop {
            let seen = word.load(Ordering::Acquire);
            if let Some(reached) = self.reached(number) {
                return Some(reached);
            }
            shared::sleep_on(word, seen, None);
        }
    }

    fn wait(&self, number: u64, turn: &mut Turn) {
        if let Some(word) = self.0.word(WORD_AT) {
            turn.wait_shared(self.key(), Reach::Outside, word, || {
                self.reached(number).is_some()
            });
        }
        if let Some(clock) = self.reached(number) {
            turn.clock.merge(&clock);
        }
    }
}

/// The record that a wait, if called now, waits for.
#[derive(Clone, Debug)]
enum Last {
    /// The event has no record.
    Nothing,
    /// A record of this process.
    Here(Arc<Point>),
    /// A record of another process.
    There(Arc<Records>, u64),
}

impl Event {
    fn last(&self) -> Last {
        let recorded = self.recorded.lock();
        let Some(shared) = &self.shared else {
            return recorded
                .back()
                .map_or(Last::Nothing, |(_, point)| Last::Here(Arc::clone(point)));
        };
        let number = shared.last();
        if number == 0 {
            return Last::Nothing;
        }
        match recorded.iter().find(|(mine, _)| *mine == number) {
            Some((_, point)) => Last::Here(Arc::clone(point)),
            None => Last::There(Arc::clone(shared), number),
        }
    }

    /// Returns the clock of the last record; [`NOT_READY`] before it is reached.
    fn reached(&self) -> Cu<Option<VectorClock>> {
        match self.last() {
            Last::Nothing => Ok(None),
            Last::Here(point) => point.reached().map(Some).ok_or(NOT_READY),
            Last::There(records, number) => records.reached(number).map(Some).ok_or(NOT_READY),
        }
    }
}

fn find(handle: u64) -> Cu<Arc<Event>> {
    EVENTS.lock().get(&handle).cloned().ok_or(INVALID_HANDLE)
}

fn keep(event: Event) -> u64 {
    let handle = host::fresh_handle();
    EVENTS.lock().insert(handle, Arc::new(event));
    handle
}

/// Creates an event.
pub(crate) fn create(flags: u32) -> Cu<u64> {
    let between = flags & INTERPROCESS != 0;
    if flags & !7 != 0 || between && flags & DISABLE_TIMING == 0 {
        return Err(INVALID_VALUE);
    }
    let shared = between.then(Records::create).transpose()?.map(Arc::new);
    Ok(keep(Event {
        opened: false,
        recorded: Mutex::default(),
        shared,
    }))
}

/// Returns the number of events in this process, created or opened.
pub(crate) fn count() -> u64 {
    EVENTS.lock().len() as u64
}

/// Drops an event. Streams that wait for it continue to wait.
pub(crate) fn destroy(handle: u64) -> Cu {
    EVENTS.lock().remove(&handle).map(drop).ok_or(INVALID_HANDLE)
}

/// Returns the address at which another process finds an event.
pub(crate) fn export(handle: u64) -> Cu<Address> {
    let event = find(handle)?;
    let shared = event
        .shared
        .as_ref()
        .filter(|_| !event.opened)
        .ok_or(INVALID_HANDLE)?;
    Ok(shared.0.address())
}

/// Opens another process's event.
pub(crate) fn open(address: Address) -> Cu<u64> {
    let shared = Shared::open(address).map_err(|_| INVALID_VALUE)?;
    if shared.len() != FIRST_RECORD_AT + RECORD_BYTES * RECORDS as usize {
        return Err(INVALID_VALUE);
    }
    Ok(keep(Event {
        opened: true,
        recorded: Mutex::default(),
        shared: Some(Arc::new(Records(shared))),
    }))
}

/// Records an event in a stream.
pub(crate) fn record(handle: u64, stream: u64) -> Cu {
    let event = find(handle)?;
    engine::about(stream)?;
    let point = Point::new();
    let Some(shared) = event.shared.clone() else {
        engine::enqueue(stream, engine::record(&point, "cuEventRecord"))?;
        event.recorded.lock().clear();
        event.recorded.lock().push_back((0, point));
        return Ok(());
    };
    let number = {
        // The lock keeps numbers and points in one order when several threads record.
        let mut recorded = event.recorded.lock();
        let number = shared.begin();
        recorded.push_back((number, Arc::clone(&point)));
        if recorded.len() > RECORDS as usize {
            recorded.pop_front();
        }
        number
    };
    engine::enqueue(
        stream,
        Operation::new("cuEventRecord", move |turn| {
            shared.complete(number, &turn.clock);
            turn.reach(&point);
        }),
    )
}

/// Makes a stream wait for the last record that was called.
pub(crate) fn wait(stream: u64, handle: u64) -> Cu {
    engine::about(stream)?;
    match find(handle)?.last() {
        Last::Nothing => Ok(()),
        Last::Here(point) => engine::enqueue(stream, engine::wait(point, "cuStreamWaitEvent")),
        Last::There(records, number) => engine::enqueue(
            stream,
            Operation::new("cuStreamWaitEvent", move |turn| records.wait(number, turn)),
        ),
    }
}

/// Checks that the last record was reached; if so, the host has seen it. [`NOT_READY`] before.
pub(crate) fn query(handle: u64) -> Cu {
    if let Some(clock) = find(handle)?.reached()? {
        host::observe(&clock);
    }
    Ok(())
}

/// Blocks the host until the last record is reached.
pub(crate) fn synchronize(handle: u64) -> Cu {
    let reached = match find(handle)?.last() {
        Last::Nothing => None,
        Last::Here(point) => {
            engine::wait_on_host(&point);
            point.reached()
        }
        Last::There(records, number) => records.wait_on_host(number),
    };
    if let Some(clock) = reached {
        host::observe(&clock);
    }
    Ok(())
}
