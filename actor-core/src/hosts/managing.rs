//! A manager, and the thread that tells it of its workers.
//!
//! Managers are user code, so the control thread only queues what they are told. A thread takes it from the queue, and ends
//! when the queue is empty.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use selvedge_channels::dispose;
use selvedge_cluster::manager::{ManageEvent, WorkerConfig};
use selvedge_cluster::peer::ProcessId;

use super::manager::ClusterManager;

/// The manager of one call of [`Runtime::add`](crate::Runtime::add).
pub(crate) struct Managing {
    state: Mutex<ManagingState>,
    /// Notified when the thread has nothing left to do.
    idle: Condvar,
}

struct ManagingState {
    waiting: VecDeque<Told>,
    teller: Teller,
    /// The number of those who may have something to tell: workers, and the call itself.
    seats: usize,
    /// The manager, until nobody has anything to tell.
    manager: Option<Arc<dyn ClusterManager>>,
    /// The configurations, in the order of the manager. The thread takes one out while the manager has it.
    configs: Vec<WorkerConfig>,
}

/// The thread that tells.
enum Teller {
    Absent,
    Starting,
    Runs(ThreadId),
}

enum Told {
    Event {
        worker: ProcessId,
        config: usize,
        event: ManageEvent,
    },
    /// The manager is not needed any more.
    Over,
}

impl Managing {
    pub(super) fn new(manager: Arc<dyn ClusterManager>) -> Arc<Self> {
        Arc::new(Managing {
            state: Mutex::new(ManagingState {
                waiting: VecDeque::new(),
                teller: Teller::Absent,
                seats: 0,
                manager: Some(manager),
                configs: Vec::new(),
            }),
            idle: Condvar::new(),
        })
    }

    /// Keeps the configuration of workers that are launched. Returns its place.
    pub(super) fn keep(&self, config: WorkerConfig) -> usize {
        let mut state = self.state.lock();
        state.configs.push(config);
        state.configs.len() - 1
    }

    /// A seat, from which the events of workers with this configuration are told.
    pub(super) fn seat(self: &Arc<Self>, config: usize) -> Seat {
        self.state.lock().seats += 1;
        Seat {
            managing: Arc::clone(self),
            config,
        }
    }

    /// Waits until the manager was told everything. Returns at once in a call of the manager.
    pub(crate) fn wait(&self, deadline: Instant) {
        let mut state = self.state.lock();
        loop {
            match state.teller {
                Teller::Absent => return,
                Teller::Runs(id) if id == thread::current().id() => return,
                Teller::Starting | Teller::Runs(_) => {}
            }
            if self.idle.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    fn queue(self: &Arc<Self>, told: Told) {
        let mut state = self.state.lock();
        state.waiting.push_back(told);
        if !matches!(state.teller, Teller::Absent) {
            return;
        }
        state.teller = Teller::Starting;
        drop(state);
        let this = Arc::clone(self);
        let started = thread::Builder::new()
            .name("selvedge-manager".to_owned())
            .spawn(move || this.tell());
        if started.is_err() {
            // The next event tries again.
            self.state.lock().teller = Teller::Absent;
            self.idle.notify_all();
        }
    }

    /// Tells the manager all that waits.
    fn tell(&self) {
        let mut state = self.state.lock();
        state.teller = Teller::Runs(thread::current().id());
        while let Some(told) = state.waiting.pop_front() {
            let (worker, place, event) = match told {
                Told::Event {
                    worker,
                    config,
                    event,
                } => (worker, config, event),
                Told::Over => {
                    let over = (state.manager.take(), std::mem::take(&mut state.configs));
                    drop(state);
                    dispose(over);
                    state = self.state.lock();
                    continue;
                }
            };
            let config = state.configs.get_mut(place).map(std::mem::take);
            let (Some(manager), Some(mut config)) = (state.manager.clone(), config) else {
                continue;
            };
            drop(state);
            let told = AssertUnwindSafe(|| manager.manage(worker, &mut config, event));
            dispose(catch_unwind(told));
            state = self.state.lock();
            if let Some(kept) = state.configs.get_mut(place) {
                *kept = config;
            }
        }
        state.teller = Teller::Absent;
        self.idle.notify_all();
    }
}

/// The right to tell a manager of workers with one configuration.
pub(super) struct Seat {
    managing: Arc<Managing>,
    config: usize,
}

impl Seat {
    pub(super) fn tell(&self, worker: ProcessId, event: ManageEvent) {
        let config = self.config;
        self.managing.queue(Told::Event {
            worker,
            config,
            event,
        });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.managing.state.lock();
            state.seats -= 1;
            state.seats == 0
        };
        if is_last {
            self.managing.queue(Told::Over);
        }
    }
}
