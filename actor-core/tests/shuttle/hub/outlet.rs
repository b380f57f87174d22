//! A model of the end of a link that is written: threads write letters to a byte ring that is often full, its reader makes room and
//! tells of it once, and the link's task goes on with what is left. The turn to write is the library's own; the steps around it are
//! those of `PeerLink::write`, `PeerLink::delivered` and the link's task.

use std::collections::VecDeque;
use std::sync::Arc;

use shuttle::thread;

use super::callers::explore;
use super::write_turn::WriteTurn;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The letters that the ring holds.
const CAPACITY: usize = 2;

/// The writes in a row by one thread.
const WRITES_MAX: usize = 2;

/// The one connection.
const CONNECTION: u64 = 1;

#[derive(Default)]
struct Outlet {
    state: Mutex<State>,
    ring: Mutex<Ring>,
    arrived: Condvar,
    task: Mutex<TaskCalls>,
    task_called: Condvar,
}

#[derive(Default)]
struct State {
    turn: WriteTurn,
    outbox: VecDeque<usize>,
}

#[derive(Default)]
struct Ring {
    letters: VecDeque<usize>,
    /// Whether the reader has to tell of room.
    is_announced: bool,
}

#[derive(Clone, Copy, Default)]
struct TaskCalls {
    /// The bell of the ring was rung: there is room, or there are bytes.
    is_told: bool,
    is_woken: bool,
    is_over: bool,
}

impl Outlet {
    fn send(&self, letter: usize) {
        let mut state = self.state.lock();
        state.outbox.push_back(letter);
        self.write(state);
    }

    fn write<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        for _ in 0..WRITES_MAX {
            if state.outbox.is_empty() || !state.turn.take(CONNECTION) {
                return;
            }
            let mut rest = std::mem::take(&mut state.outbox);
            drop(state);
            self.try_write(&mut rest);
            state = self.state.lock();
            let is_present = state
                .turn
                .end(Some(CONNECTION), !rest.is_empty(), || self.has_room());
            assert!(is_present);
            rest.append(&mut state.outbox);
            state.outbox = rest;
            if state.turn.is_blocked() {
                return self.call_task(|calls| calls.is_woken = true);
            }
        }
        state.turn.leave();
        self.call_task(|calls| calls.is_woken = true);
    }

    /// Writes as many letters as there is room for, and announces that room is waited for if there is too little.
    fn try_write(&self, letters: &mut VecDeque<usize>) {
        while let Some(letter) = letters.front() {
            let mut ring = self.ring.lock();
            if ring.letters.len() == CAPACITY {
                ring.is_announced = true;
                return;
            }
            ring.letters.push_back(*letter);
            letters.pop_front();
            self.arrived.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        let mut ring = self.ring.lock();
        ring.is_announced = ring.letters.len() == CAPACITY;
        !ring.is_announced
    }

    /// Reads one letter, and tells of room if that was announced.
    fn read(&self) -> usize {
        let mut ring = self.ring.lock();
        loop {
            if let Some(letter) = ring.letters.pop_front() {
                let is_told = std::mem::take(&mut ring.is_announced);
                drop(ring);
                if is_told {
                    self.call_task(|calls| calls.is_told = true);
                }
                return letter;
            }
            self.arrived.wait(&mut ring);
        }
    }

    /// The bell was rung, and all bytes are read.
    fn delivered(&self) {
        let mut state = self.state.lock();
        if state.turn.is_blocked() && self.has_room() {
            state.turn.free();
        }
        self.write(state);
    }

    fn run_task(&self) {
        loop {
            let mut state = self.state.lock();
            if state.turn.is_left() {
                state.turn.free();
                self.write(state);
                continue;
            }
            drop(state);
            let calls = self.next_calls();
            if calls.is_over {
                return;
            }
            if calls.is_told {
                self.delivered();
            }
        }
    }

    fn call_task(&self, call: impl FnOnce(&mut TaskCalls)) {
        call(&mut self.task.lock());
        self.task_called.notify_one();
    }

    fn next_calls(&self) -> TaskCalls {
        let mut calls = self.task.lock();
        while !(calls.is_told || calls.is_woken || calls.is_over) {
            self.task_called.wait(&mut calls);
        }
        std::mem::take(&mut calls)
    }
}

/// Every letter arrives, those of one writer in their order, or shuttle finds that all threads wait.
fn run(writers: usize, each: usize) {
    let outlet = Arc::new(Outlet::default());
    let task = {
        let outlet = Arc::clone(&outlet);
        thread::spawn(move || outlet.run_task())
    };
    let writers: Vec<_> = (0..writers)
        .map(|writer| {
            let outlet = Arc::clone(&outlet);
            thread::spawn(move || (0..each).for_each(|letter| outlet.send(writer * each + letter)))
        })
        .collect();
    let mut next: Vec<usize> = (0..writers.len()).map(|writer| writer * each).collect();
    for _ in 0..writers.len() * each {
        let letter = outlet.read();
        let expected = &mut next[letter / each];
        assert_eq!(letter, *expected);
        *expected += 1;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    outlet.call_task(|calls| calls.is_over = true);
    task.join().unwrap();
}

#[test]
fn one_writer_of_a_full_ring_is_told_of_room() {
    explore(|| run(1, 5));
}

#[test]
fn writers_of_a_full_ring_are_told_of_room() {
    explore(|| run(3, 3));
}
