//! The switch: a thread that passes packets from host to host, and the table that decides about each.
//!
//! - `line`: one direction between two hosts, and what becomes of a packet there. `faults`, `chance`: by which numbers.
//! - `network`: all lines, and the packets that are under way. It reads no clock and no descriptor.
//! - `thread`: the clock and the descriptors.

mod chance;
mod faults;
mod line;
mod network;
mod thread;
mod traffic;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::waiting::LIMIT;
pub(crate) use line::LineId;
use network::Network;

pub use faults::Faults;
pub use traffic::Traffic;

/// The network between the hosts, and the thread that moves its packets.
pub(crate) struct Switch {
    shared: Arc<Shared>,
    /// Ends the thread.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread of the switch shares with those who change the network or wait for traffic.
struct Shared {
    state: Mutex<State>,
    /// Packets have arrived, or the thread has ended.
    moved: Condvar,
}

struct State {
    network: Network,
    /// The reason why no packet moves any more.
    broken: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Switch {
    /// Starts to pass packets between the cables of the hosts, which are in the order of their numbers.
    pub(crate) fn start(cables: Vec<OwnedFd>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                network: Network::new(cables.len()),
                broken: None,
            }),
            moved: Condvar::new(),
        });
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let thread = thread::start(cables, Arc::clone(&stop), Arc::clone(&shared))?;
        Ok(Switch {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// Looks at the network, or changes it. No packet moves meanwhile.
    pub(crate) fn with<T>(&self, job: impl FnOnce(&mut Network) -> T) -> T {
        job(&mut self.shared.lock().network)
    }

    /// Waits until the traffic of a line fulfils a condition, and returns it.
    pub(crate) fn wait_for(
        &self,
        line: LineId,
        mut is_met: impl FnMut(&Traffic) -> bool,
    ) -> io::Result<Traffic> {
        let deadline = Instant::now() + LIMIT;
        let mut state = self.shared.lock();
        loop {
            let traffic = state.network.traffic(line);
            if is_met(&traffic) {
                return Ok(traffic);
            }
            if let Some(reason) = &state.broken {
                return Err(io::Error::other(reason.clone()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                let text = format!("the traffic has stayed at {traffic:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let waited = self.shared.moved.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The counter of the descriptor is far from full.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked, and has ended.
            let _ = thread.join();
        }
    }
}
