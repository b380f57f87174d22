//! A model of the wait of the thread that leads. As with `epoll` and exclusive entries, an arrival is reported by the wait, and told
//! to others too unless a thread waits.

use std::io;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

use crate::sync::{Condvar, Mutex};

/// So few that a wait may leave some.
pub(crate) const ARRIVALS_MAX: usize = 2;

#[derive(Default)]
pub(crate) struct LeadPoll {
    events: Mutex<Events>,
    woken: Condvar,
}

#[derive(Default)]
struct Events {
    /// Whether a thread waits that nobody has woken.
    is_waited: bool,
    is_rung: bool,
    names: Vec<u64>,
}

impl LeadPoll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Bytes have arrived at a socket. Returns whether a thread waits, so that nobody else is to be told.
    pub(crate) fn arrive(&self, name: u64) -> bool {
        let mut events = self.events.lock();
        if !events.names.contains(&name) {
            events.names.push(name);
        }
        self.tell(&mut events)
    }

    pub(crate) fn ring(&self) {
        let mut events = self.events.lock();
        events.is_rung = true;
        self.tell(&mut events);
    }

    fn tell(&self, events: &mut Events) -> bool {
        self.woken.notify_one();
        std::mem::take(&mut events.is_waited)
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>, mut arrived: impl FnMut(u64)) -> io::Result<bool> {
        let mut events = self.events.lock();
        // A wait that has a limit may end at any time.
        let is_over = timeout.is_some_and(|timeout| timeout.is_zero() || thread_rng().gen_bool(0.3));
        while !is_over && !events.is_rung && events.names.is_empty() {
            events.is_waited = true;
            self.woken.wait(&mut events);
        }
        events.is_waited = false;
        // The bell takes a place, as the name of a socket does.
        let places = ARRIVALS_MAX - usize::from(std::mem::take(&mut events.is_rung));
        let count = places.min(events.names.len());
        let is_full = count == places;
        events.names.drain(..count).for_each(&mut arrived);
        Ok(is_full)
    }
}
