//! A model of a link's stream: a socket, which tells of each arrival, or a byte ring, which tells whoever has announced that nobody
//! looks. A socket of the model tells of arrivals also while a thread looks at it; the library's does not. Each byte is the number of a
//! caller, whose answer it is.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use crate::platform::lead_poll::LeadPoll;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

use super::lead::{Lead, LeadPlace};
use super::read_turn::ReadResult;
use super::turn_reader::{TurnReader, TurnStream};
use crate::sleeper::Sleeper;

/// The bytes of one read.
const READ_MAX: usize = 2;

/// A caller's wait for its answer.
#[derive(Clone)]
pub(super) struct Wait {
    pub(super) sleeper: Arc<Sleeper>,
    pub(super) is_answered: Arc<AtomicBool>,
}

/// The waits of all callers.
pub(super) type Waits = Arc<Mutex<Vec<Option<Wait>>>>;

pub(super) struct Stream {
    lead: Arc<Lead>,
    name: OnceLock<u64>,
    is_ring: bool,
    content: Mutex<Content>,
    waits: Waits,
    task: Mutex<TaskCalls>,
    task_called: Condvar,
}

#[derive(Default)]
struct Content {
    bytes: VecDeque<usize>,
    /// Whether the writer of a ring has to tell of bytes.
    is_announced: bool,
    /// Whether a thread looks at the ring by itself.
    is_watched: bool,
}

/// What the link's task is called for.
#[derive(Clone, Copy, Default)]
struct TaskCalls {
    is_told: bool,
    is_woken: bool,
    is_over: bool,
}

impl Stream {
    /// A stream, with its place in the list of the thread that leads.
    pub(super) fn listed(
        lead: &Arc<Lead>,
        waits: &Waits,
        is_ring: bool,
    ) -> (Arc<TurnReader<Stream>>, LeadPlace) {
        let content = Content {
            is_announced: true,
            ..Content::default()
        };
        let stream = Arc::new(TurnReader::new(Stream {
            lead: Arc::clone(lead),
            name: OnceLock::new(),
            is_ring,
            content: Mutex::new(content),
            waits: Arc::clone(waits),
            task: Mutex::default(),
            task_called: Condvar::default(),
        }));
        let (place, name) = lead.list(stream.clone());
        stream.stream().name.set(name).unwrap();
        (stream, place)
    }

    /// The peer answers a caller.
    pub(super) fn answer(&self, caller: usize) {
        let mut content = self.content.lock();
        content.bytes.push_back(caller);
        let is_told = !self.is_ring || std::mem::take(&mut content.is_announced);
        drop(content);
        if is_told {
            self.tell();
        }
    }

    fn tell(&self) {
        let name = *self.name.get().unwrap();
        if !self.lead.poll().unwrap().arrive(name) {
            self.call_task(|calls| calls.is_told = true);
        }
    }

    fn call_task(&self, call: impl FnOnce(&mut TaskCalls)) {
        call(&mut self.task.lock());
        self.task_called.notify_one();
    }

    /// Ends the task.
    pub(super) fn end(&self) {
        self.call_task(|calls| calls.is_over = true);
    }

    fn next_calls(&self) -> TaskCalls {
        let mut calls = self.task.lock();
        while !(calls.is_told || calls.is_woken || calls.is_over) {
            self.task_called.wait(&mut calls);
        }
        std::mem::take(&mut calls)
    }
}

/// The link's task.
pub(super) fn task(reader: &TurnReader<Stream>) {
    loop {
        let calls = reader.stream().next_calls();
        if calls.is_over {
            return;
        }
        let is_left = calls.is_woken && reader.take_left();
        if (calls.is_told || is_left) && reader.begin() {
            while reader.read_rest() {}
        }
    }
}

impl TurnStream for Stream {
    fn read(&self) -> Option<ReadResult> {
        let mut content = self.content.lock();
        let count = content.bytes.len().min(READ_MAX);
        let mut answers: Vec<usize> = content.bytes.drain(..count).collect();
        while self.is_ring && answers.len() < READ_MAX && !content.is_watched {
            content.is_announced = true;
            // The writer may come between the announcement and the second look.
            drop(content);
            content = self.content.lock();
            if content.bytes.is_empty() {
                break;
            }
            content.is_announced = false;
            let count = content.bytes.len().min(READ_MAX - answers.len());
            answers.extend(content.bytes.drain(..count));
        }
        drop(content);
        for caller in &answers {
            let wait = self.waits.lock()[*caller].take().unwrap();
            wait.is_answered.store(true, Ordering::Release);
            wait.sleeper.wake();
        }
        Some(match answers.len() {
            0 => ReadResult::Nothing,
            READ_MAX => ReadResult::Full,
            _ => ReadResult::Some,
        })
    }

    fn wake_task(&self) {
        self.call_task(|calls| calls.is_woken = true);
    }

    fn is_watchable(&self) -> bool {
        self.is_ring
    }

    fn has_bytes(&self) -> bool {
        !self.content.lock().bytes.is_empty()
    }

    fn watch(&self) {
        let mut content = self.content.lock();
        content.is_watched = true;
        content.is_announced = false;
    }

    fn unwatch(&self) -> bool {
        if !self.is_ring {
            return false;
        }
        let mut content = self.content.lock();
        content.is_watched = false;
        content.is_announced = content.bytes.is_empty();
        !content.is_announced
    }

    fn leave(&self, _: &LeadPoll) {}
}
