//! The workers that a command line asks for.

use std::num::NonZeroU16;
use std::thread::available_parallelism;

use crate::flags::{ENV_WORKERS, worker_count};
use crate::home::handles::Worker;
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;

impl Runtime {
    /// Starts the workers on this host that the user asks for: `--selvedge-workers=4` on the program's command line, or `auto` for
    /// one a core, or the variable `SELVEDGE_WORKERS`. Without either there are none.
    ///
    /// ```
    /// # use selvedge_core as selvedge;
    /// # fn main() -> Result<(), selvedge::SpawnError> {
    /// let runtime = selvedge::Runtime::new();
    /// let workers = runtime.requested_workers()?;
    /// println!("{} workers", workers.len()); // without workers, functions run in this process
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SpawnError::Env`] if the variable is no number from 1 to 65535 and not `auto`; those of [`worker`](Self::worker), and then no
    /// worker is left.
    pub fn requested_workers(&self) -> Result<Vec<Worker>, SpawnError> {
        let Some(asked) = std::env::var_os(ENV_WORKERS) else {
            return Ok(Vec::new());
        };
        let count = asked
            .to_str()
            .and_then(worker_count)
            .ok_or_else(|| SpawnError::Env {
                key: ENV_WORKERS.to_owned(),
                reason: "write a number of workers from 1 to 65535, or `auto` for one a core",
            })?;
        let cores = || available_parallelism().map_or(1, |cores| cores.get().min(usize::from(u16::MAX)));
        let count = count.map_or_else(cores, |count| usize::from(NonZeroU16::get(count)));
        (1..=count)
            .map(|number| self.worker(format!("worker {number}")))
            .collect()
    }
}
