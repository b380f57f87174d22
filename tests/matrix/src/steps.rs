//! A thread that does one step of a load after another, and counts them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selvedge::prelude::*;

/// The steps of a load, done by a thread.
pub(crate) struct Steps {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// What has been done, and what may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The steps that may be done.
    allowed: u64,
    /// The steps that were done.
    pub(crate) steps: u64,
    /// The longest of them.
    pub(crate) longest: Duration,
    /// The error that has ended them.
    pub(crate) error: Option<String>,
}

#[derive(Default)]
struct Shared {
    done: Mutex<Done>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a condition holds. The test ends this process if that never comes.
    fn wait(&self, mut is_met: impl FnMut(&Done) -> bool) -> Done {
        let waited = self.changed.wait_while(self.lock(), |done| !is_met(done));
        waited.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Steps {
    /// Starts the thread. Each step gets its number, and the first error is the last step, which is told to `news`.
    pub(crate) fn start(
        mut step: impl FnMut(u64) -> Result<()> + Send + 'static,
        news: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            loop {
                let done = of_thread.wait(|done| done.allowed != done.steps);
                if done.allowed < done.steps {
                    return;
                }
                let begun = Instant::now();
                let error = step(done.steps).err().map(|error| error.to_string());
                if let Some(error) = &error {
                    news(error);
                }
                let mut done = of_thread.lock();
                done.steps += 1;
                done.longest = done.longest.max(begun.elapsed());
                done.error = error;
                let is_over = done.error.is_some();
                drop(done);
                of_thread.changed.notify_all();
                if is_over {
                    return;
                }
            }
        });
        Steps { shared, thread }
    }

    /// Lets the thread do so many further steps at least, and waits for them, or for an error.
    pub(crate) fn further(&self, count: u64) -> Done {
        let mut done = self.shared.lock();
        let wanted = done.steps.saturating_add(count);
        done.allowed = done.allowed.max(wanted);
        done.longest = Duration::ZERO;
        drop(done);
        self.shared.changed.notify_all();
        self.shared
            .wait(|done| done.steps >= wanted || done.error.is_some())
    }

    /// Lets the thread go on until it is ended.
    pub(crate) fn go_on(&self) {
        self.shared.lock().allowed = u64::MAX;
        self.shared.changed.notify_all();
    }

    /// Ends the thread after its present step.
    pub(crate) fn end(self) -> Done {
        self.shared.lock().allowed = 0;
        self.shared.changed.notify_all();
        // An error means that a step has panicked, which has been printed.
        let _ = self.thread.join();
        self.shared.lock().clone()
    }
}
