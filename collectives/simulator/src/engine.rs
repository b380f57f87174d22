//! Streams: a thread each, with a queue.
//!
//! One lock holds the state of all streams of the process, so that it can be told exactly whether anything can still happen.
//! A stream that waits says for what ([`Key`]), and whoever makes that true unblocks it under the lock, before its own
//! operation ends: between the two there is no moment at which everybody seems stuck.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clock::{Component, Epoch, VectorClock};
use crate::code::{Cu, INVALID_HANDLE, OUT_OF_MEMORY};
use crate::history::Intent;
use crate::memory::Use;
use crate::point::Point;
use crate::report::{self, Line};
use crate::{host, ledger, race, random, settings, shared};

/// What a stream may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A place in a stream of this process.
    Point(u64),
    /// Something in shared memory, by its nonce.
    Shared(u64),
    /// Words in memory.
    Words,
    /// A host that releases a busy kernel.
    Release,
}

/// Whether something outside this process may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Process,
    Outside,
}

/// What a stream does when its turn comes.
pub(crate) type Run = Box<dyn FnOnce(&mut Turn) + Send>;

/// Something to be done in a stream.
pub(crate) struct Operation {
    pub(crate) name: Cow<'static, str>,
    pub(crate) uses: Vec<Use>,
    pub(crate) run: Run,
    /// Reached when it has ended, and uses nothing any more.
    pub(crate) done: Option<Arc<Point>>,
}

impl Operation {
    /// One that uses no memory.
    pub(crate) fn new(name: &'static str, run: impl FnOnce(&mut Turn) + Send + 'static) -> Self {
        Operation {
            name: name.into(),
            uses: Vec::new(),
            run: Box::new(run),
            done: None,
        }
    }
}

/// An operation in a queue, with what was known when it got there.
struct Enqueued {
    operation: Operation,
    known: VectorClock,
    at_ns: u64,
}

/// How streams order themselves with the legacy default stream of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The default stream itself.
    Default,
    /// Ordered with the default stream.
    Blocking,
    /// Ordered with nothing.
    NonBlocking,
}

struct Stream {
    device: u32,
    manner: Manner,
    priority: i32,
    component: Component,
    number: u64,
    clock: VectorClock,
    queue: VecDeque<Enqueued>,
    busy: bool,
    blocked: Option<(Key, Reach)>,
    closing: bool,
    enqueued: u64,
    finished: u64,
    /// Operations of the default stream that this one is ordered after.
    default_seen: u64,
    /// Operations of this stream that the default one is ordered after.
    seen_by_default: u64,
    wake: Arc<Condvar>,
}

impl Stream {
    fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }
}

#[derive(Default)]
struct State {
    streams: BTreeMap<u64, Stream>,
    defaults: HashMap<u32, u64>,
    components: u32,
    /// Numbers of streams that are gone, with how far they counted.
    gone: Vec<Epoch>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
/// Rung when anything ends, blocks or is unblocked: for hosts.
static CHANGED: Condvar = Condvar::new();
static THREADS: LazyLock<Mutex<HashMap<u64, JoinHandle<()>>>> = LazyLock::new(Mutex::default);

/// What is told about a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) device: u32,
    pub(crate) manner: Manner,
    pub(crate) priority: i32,
}

/// Whether everything has been done, or nothing more can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Drained,
    Stuck,
    /// Nothing can happen here, but another process may end a wait.
    Outside,
}

impl State {
    fn stream(&mut self, handle: u64) -> Cu<&mut Stream> {
        self.streams.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    /// A number for a new stream. One of a stream that is gone will do once a host has seen all of it.
    fn component(&mut self) -> Epoch {
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

    fn push(&mut self, handle: u64, enqueued: Enqueued) {
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.queue.push_back(enqueued);
            stream.enqueued += 1;
            stream.wake.notify_all();
        }
    }

    /// Orders one stream after all that is in another.
    fn join(&mut self, waits: u64, behind: u64) {
        let point = Point::new();
        self.push(behind, Enqueued::now(record(&point, "legacy order, record")));
        self.push(waits, Enqueued::now(wait(point, "legacy order, wait")));
    }

    /// The order that the legacy default stream keeps with blocking streams.
    fn order_with_default(&mut self, handle: u64) {
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

    fn settled(&self) -> Option<Settled> {
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

impl Enqueued {
    fn now(operation: Operation) -> Self {
        let mut known = host::seen();
        for used in operation
            .uses
            .iter()
            .filter(|used| used.span.allocation.is_between_processes())
        {
            known.merge(&ledger::observed(used.span.allocation.shared()));
        }
        Enqueued {
            operation,
            known,
            at_ns: report::now_ns(),
        }
    }
}

/// An operation that reaches a point.
pub(crate) fn record(point: &Arc<Point>, name: &'static str) -> Operation {
    let point = Arc::clone(point);
    Operation::new(name, move |turn| turn.reach(&point))
}

/// An operation that waits for a point.
pub(crate) fn wait(point: Arc<Point>, name: &'static str) -> Operation {
    Operation::new(name, move |turn| turn.wait_for(&point))
}

/// A new stream and its thread.
pub(crate) fn create(device: u32, manner: Manner, priority: i32) -> Cu<u64> {
    let handle = host::fresh_handle();
    let wake = Arc::new(Condvar::new());
    let mut state = STATE.lock();
    let Epoch { component, number } = state.component();
    let stream = Stream {
        device,
        manner,
        priority,
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
        .spawn(move || live(handle));
    let Ok(thread) = started else {
        state.streams.remove(&handle);
        return Err(OUT_OF_MEMORY);
    };
    drop(state);
    THREADS.lock().insert(handle, thread);
    Ok(handle)
}

/// The default stream of a device.
pub(crate) fn default_of(device: u32) -> Cu<u64> {
    if let Some(handle) = STATE.lock().defaults.get(&device) {
        return Ok(*handle);
    }
    let handle = create(device, Manner::Default, 0)?;
    let first = *STATE.lock().defaults.entry(device).or_insert(handle);
    if first != handle {
        destroy(handle)?;
    }
    Ok(first)
}

/// Lets a stream end when it has done what is in it. Joins its thread if that is now.
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
        // Stream threads do not panic; one that did is gone all the same.
        let _ = thread.join();
    }
    Ok(())
}

/// Lets all streams of a device end: its context is gone.
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

/// What is known about a stream.
pub(crate) fn about(handle: u64) -> Cu<About> {
    let mut state = STATE.lock();
    let stream = state.stream(handle)?;
    Ok(About {
        device: stream.device,
        manner: stream.manner,
        priority: stream.priority,
    })
}

/// Puts an operation into a stream's queue.
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

/// Whether a stream has done everything; then the host has seen it.
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

/// Blocks the host until a stream has done what is in it now.
pub(crate) fn synchronize(handle: u64) -> Cu {
    let mut state = STATE.lock();
    if state.stream(handle)?.manner == Manner::Default {
        state.order_with_default(handle);
    }
    let upto = state.stream(handle)?.enqueued;
    loop {
        // A stream that was destroyed meanwhile and is gone has done it.
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

/// Streams of a device, or of all.
pub(crate) fn handles(device: Option<u32>) -> Vec<u64> {
    let state = STATE.lock();
    let of = state
        .streams
        .iter()
        .filter(|(_, stream)| device.is_none_or(|device| stream.device == device));
    of.map(|(handle, _)| *handle).collect()
}

/// Blocks the host until a point is reached.
pub(crate) fn wait_on_host(point: &Point) {
    let mut state = STATE.lock();
    while !point.is_reached() {
        CHANGED.wait(&mut state);
    }
}

/// Something that streams may wait for has changed.
pub(crate) fn notify(key: Key) {
    notify_in(&mut STATE.lock(), key);
}

/// Something in shared memory has changed: rings its word. That and unblocking are one step, or a stream that looked at the new
/// word, and blocked again, would be taken for one that is about to look.
pub(crate) fn ring(word: &AtomicU32, key: Key) {
    let mut state = STATE.lock();
    shared::ring(word);
    notify_in(&mut state, key);
}

fn notify_in(state: &mut MutexGuard<'_, State>, key: Key) {
    for stream in state.streams.values_mut() {
        if stream.blocked.is_some_and(|(waits_for, _)| waits_for == key) {
            stream.blocked = None;
            stream.wake.notify_all();
        }
    }
    CHANGED.notify_all();
}

/// Blocks until everything is done, or nothing more can be. Hosts must have enqueued what they want to before.
pub(crate) fn settle() -> Settled {
    let mut state = STATE.lock();
    loop {
        if let Some(settled) = state.settled() {
            return settled;
        }
        CHANGED.wait(&mut state);
    }
}

/// Whether everything is done, or nothing more can be; `None` while something can.
pub(crate) fn settled() -> Option<Settled> {
    STATE.lock().settled()
}

/// A stream's thread.
fn live(handle: u64) {
    let mut state = STATE.lock();
    let Ok(stream) = state.stream(handle) else {
        return;
    };
    let wake = Arc::clone(&stream.wake);
    let mut dawdle = settings::get()
        .seed
        .map(|seed| random::mix(seed ^ u64::from(stream.component.0 as u32)));
    loop {
        let Ok(stream) = state.stream(handle) else {
            return;
        };
        let Some(enqueued) = stream.queue.pop_front() else {
            if stream.closing {
                break;
            }
            wake.wait(&mut state);
            continue;
        };
        stream.busy = true;
        stream.number += 1;
        let epoch = Epoch {
            component: stream.component,
            number: stream.number,
        };
        let mut turn = Turn {
            stream: handle,
            clock: stream.clock.clone(),
            epoch,
            wake: Arc::clone(&wake),
        };
        drop(state);
        if let Some(random) = &mut dawdle {
            *random = random::mix(*random);
            thread::sleep(Duration::from_micros(*random % 300));
        }
        turn.execute(enqueued);
        state = STATE.lock();
        if let Ok(stream) = state.stream(handle) {
            stream.busy = false;
            stream.finished += 1;
            stream.clock = turn.clock;
        }
        CHANGED.notify_all();
    }
    if let Some(stream) = state.streams.remove(&handle) {
        state.gone.push(Epoch {
            component: stream.component,
            number: stream.number,
        });
    }
    CHANGED.notify_all();
}

/// A stream while it does one operation.
pub(crate) struct Turn {
    stream: u64,
    pub(crate) clock: VectorClock,
    pub(crate) epoch: Epoch,
    wake: Arc<Condvar>,
}

impl Turn {
    fn execute(&mut self, enqueued: Enqueued) {
        let Enqueued {
            operation:
                Operation {
                    name,
                    uses,
                    run,
                    done,
                },
            known,
            at_ns,
        } = enqueued;
        let begin_ns = report::now_ns();
        self.clock.merge(&known);
        self.clock.reach(self.epoch);
        race::check(&name, &uses, self.epoch, &self.clock);
        run(self);
        if report::has_timeline() {
            let bytes = uses.iter().map(|used| used.span.len).sum();
            Line::new("operation")
                .number("stream", self.stream)
                .text("name", &name)
                .number("enqueued_ns", at_ns)
                .number("begin_ns", begin_ns)
                .number("end_ns", report::now_ns())
                .number("bytes", bytes)
                .executed();
        }
        let wrote = uses.iter().any(|used| used.intent == Intent::Write);
        drop(uses);
        if wrote {
            notify(Key::Words);
        }
        if let Some(done) = done {
            self.reach(&done);
        }
    }

    /// This stream is at the point: whoever waits for it goes on.
    pub(crate) fn reach(&self, point: &Point) {
        point.reach(&self.clock, report::now_ns());
        notify(Key::Point(point.id));
    }

    /// Waits for a point, and knows from then on what was known there.
    pub(crate) fn wait_for(&mut self, point: &Point) {
        let mut state = STATE.lock();
        while !point.is_reached() {
            self.block(&mut state, Key::Point(point.id), Reach::Process);
            self.wake.wait(&mut state);
        }
        self.unblock(&mut state);
        drop(state);
        if let Some(reached) = point.reached() {
            self.clock.merge(&reached.clock);
        }
    }

    /// Waits until `ready`, which is looked at again whenever `word` was rung, here or in another process.
    pub(crate) fn wait_shared(
        &self,
        key: Key,
        reach: Reach,
        word: &AtomicU32,
        mut ready: impl FnMut() -> bool,
    ) {
        loop {
            // SYNC rung: `ready` then sees what was written before the ring.
            let seen = word.load(Ordering::Acquire);
            if ready() {
                return;
            }
            let mut state = STATE.lock();
            self.block(&mut state, key, reach);
            // Who rings here holds the lock and unblocks us: a ring before this line is seen now, a later one unblocks.
            let rung = word.load(Ordering::Acquire) != seen;
            if rung {
                self.unblock(&mut state);
            }
            drop(state);
            if !rung {
                shared::sleep_on(word, seen, None);
                self.unblock(&mut STATE.lock());
            }
        }
    }

    /// Waits until `ready`, looking again whenever `key` is notified and, if somebody outside may do it, every `pace`.
    pub(crate) fn wait_polling(
        &self,
        key: Key,
        reach: Reach,
        pace: Duration,
        mut ready: impl FnMut() -> bool,
    ) {
        let mut state = STATE.lock();
        while !ready() {
            self.block(&mut state, key, reach);
            match reach {
                Reach::Process => self.wake.wait(&mut state),
                Reach::Outside => {
                    self.wake.wait_for(&mut state, pace);
                }
            }
        }
        self.unblock(&mut state);
    }

    fn block(&self, state: &mut MutexGuard<'_, State>, key: Key, reach: Reach) {
        if let Ok(stream) = state.stream(self.stream) {
            stream.blocked = Some((key, reach));
        }
        CHANGED.notify_all();
    }

    fn unblock(&self, state: &mut MutexGuard<'_, State>) {
        if let Ok(stream) = state.stream(self.stream) {
            stream.blocked = None;
        }
    }
}
