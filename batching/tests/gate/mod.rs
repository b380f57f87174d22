//! Gates that block actors until a test releases them, and record the items of each execution: no test depends on time.
#![allow(dead_code)] // each test file uses only a part

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A time limit beyond the length of any test.
pub const LONG: Duration = Duration::from_secs(600);

struct State {
    /// The number of executions that may pass; `None` lets all pass.
    passes: Option<usize>,
    seen: Vec<Vec<i64>>,
}

static GATES: LazyLock<(Mutex<HashMap<u64, State>>, Condvar)> = LazyLock::new(Default::default);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A gate that can be an actor's argument. In a worker process it is a separate gate, which stays in its first state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Gate {
    number: u64,
    passes: Option<usize>,
}

impl Gate {
    fn new(passes: Option<usize>) -> Gate {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Gate { number, passes }
    }

    fn state<'a>(&self, gates: &'a mut HashMap<u64, State>) -> &'a mut State {
        gates.entry(self.number).or_insert_with(|| State {
            passes: self.passes,
            seen: Vec::new(),
        })
    }

    pub fn closed() -> Gate {
        Gate::new(Some(0))
    }

    pub fn opened() -> Gate {
        Gate::new(None)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut gates = GATES.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(self.state(&mut gates));
        GATES.1.notify_all();
        result
    }

    fn wait<R>(&self, mut until: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut gates = GATES.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = until(self.state(&mut gates)) {
                GATES.1.notify_all();
                return found;
            }
            let waited = GATES.1.wait_timeout(gates, Duration::from_secs(60));
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!timeout.timed_out(), "nobody came to the gate");
            gates = back;
        }
    }

    /// Records the items of an execution, then waits until the execution may pass. Actors call this.
    pub fn enter(&self, items: &[i64]) {
        self.change(|state| state.seen.push(items.to_vec()));
        self.wait(|state| match &mut state.passes {
            None => Some(()),
            Some(0) => None,
            Some(passes) => {
                *passes -= 1;
                Some(())
            }
        });
    }

    /// Lets all executions pass from now on.
    pub fn open(&self) {
        self.change(|state| state.passes = None);
    }

    /// Lets one more execution pass.
    pub fn pass(&self) {
        self.change(|state| state.passes = state.passes.map(|passes| passes + 1));
    }

    /// Waits until this many executions have arrived.
    pub fn wait_entered(&self, executions: usize) {
        self.wait(|state| (state.seen.len() >= executions).then_some(()));
    }

    /// The items of the executions that have arrived.
    pub fn seen(&self) -> Vec<Vec<i64>> {
        self.change(|state| state.seen.clone())
    }

    /// The sizes of the executions that have arrived.
    pub fn sizes(&self) -> Vec<usize> {
        self.seen().iter().map(Vec::len).collect()
    }
}

/// Calls `so` until it returns true; only a failure takes the whole minute.
pub fn until(mut so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(std::time::Instant::now() < deadline, "it did not come to that");
        std::thread::yield_now();
    }
}
