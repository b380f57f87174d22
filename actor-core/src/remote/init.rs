//! The initialisation of a process: functions that run once, before its first remote function.

use std::sync::OnceLock;

use crate::failure::{Failure, FailureReport};
use crate::remote::function::WORKER_INITS;

/// The initialisation of one process.
pub(crate) struct WorkerInit(OnceLock<Result<(), FailureReport>>);

/// The initialisation of this process, whatever runtimes it has.
pub(crate) static OF_PROCESS: WorkerInit = WorkerInit::new();

impl WorkerInit {
    pub(crate) const fn new() -> Self {
        WorkerInit(OnceLock::new())
    }

    /// Runs all `#[worker_init]` functions, the first time. Other callers wait until they have ended.
    ///
    /// # Errors
    /// The failure of the first one that failed, each time.
    pub(crate) fn ensure(&self) -> Result<(), FailureReport> {
        self.0.get_or_init(run_all).clone()
    }
}

/// Runs the functions in the order of their paths.
fn run_all() -> Result<(), FailureReport> {
    let mut entries: Vec<_> = WORKER_INITS.iter().collect();
    entries.sort_unstable_by_key(|entry| entry.path);
    entries.into_iter().try_for_each(|entry| {
        Failure::catch(entry.run).map_err(|failure| {
            let mut report = failure.into_report();
            report.message = format!("`{}`: {}", entry.path, report.message);
            report
        })
    })
}
