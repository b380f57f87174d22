//! A stream's thread, and the execution of an operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Condvar;

use super::operation::{Enqueued, Key, Operation, Reach};
use super::state::{CHANGED, STATE, State, notify};
use crate::clock::{Epoch, VectorClock};
use crate::history::Intent;
use crate::point::Point;
use crate::report::{self, Line};
use crate::{race, random, settings, shared};

/// Runs a stream's thread.
pub(super) fn live(handle: u64) {
    let mut state = STATE.lock();
    let Ok(stream) = state.stream(handle) else {
        return;
    };
    let wake = Arc::clone(&stream.wake);
    let mut dawdle = settings::get().seed.map(|seed| random::mix(seed ^ handle));
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

/// A stream during one operation.
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
                .number("handle", self.stream)
                .number("stream", self.epoch.component.0 & 0xffff_ffff)
                .number("number", self.epoch.number)
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

    /// Reaches a point in this stream and wakes the streams that wait for it.
    pub(crate) fn reach(&self, point: &Point) {
        point.reach(&self.clock);
        notify(Key::Point(point.id));
    }

    /// Waits for a point, and merges the clock of the point.
    pub(crate) fn wait_for(&mut self, point: &Point) {
        let mut state = STATE.lock();
        while !point.is_reached() {
            self.block(&mut state, Key::Point(point.id), Reach::Process);
            self.wake.wait(&mut state);
        }
        self.unblock(&mut state);
        drop(state);
        if let Some(clock) = point.reached() {
            self.clock.merge(&clock);
        }
    }

    /// Waits until `ready` returns `true`; calls it again whenever `word` is rung, in this process or another.
    pub(crate) fn wait_shared(
        &self,
        key: Key,
        reach: Reach,
        word: &AtomicU32,
        mut ready: impl FnMut() -> bool,
    ) {
        loop {
            // SYNC rung: Acquire, so that `ready` sees the writes before the ring.
            let seen = word.load(Ordering::Acquire);
            if ready() {
                return;
            }
            let mut state = STATE.lock();
            self.block(&mut state, key, reach);
            // A ringing thread of this process holds the lock and unblocks this stream: a ring before this line is seen
            // here, a later one unblocks the stream.
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

    /// Waits until `ready` returns `true`; calls it again whenever `key` is notified and, if a thread outside this
    /// process may end the wait, every `pace`.
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

    fn block(&self, state: &mut State, key: Key, reach: Reach) {
        if let Ok(stream) = state.stream(self.stream) {
            stream.blocked = Some((key, reach));
        }
        CHANGED.notify_all();
    }

    fn unblock(&self, state: &mut State) {
        if let Ok(stream) = state.stream(self.stream) {
            stream.blocked = None;
        }
    }
}
