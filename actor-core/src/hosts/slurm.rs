//! Workers on the nodes of a Slurm cluster.

use std::num::NonZeroU16;

use selvedge_cluster::manager::{WorkerCommand, WorkerConfig};

use super::manager::{ClusterManager, given_or_this_program};
use super::terms::{Terms, terms_getters, terms_setters};
use crate::BoxError;

/// Workers that `srun` starts, each by a job step of its own: within an allocation (`salloc`, `sbatch`), or in a job of its own if
/// there is none. Slurm chooses the nodes; each of them needs this program at the path that it has here, or at the one of
/// [`command`](Self::command). What is said to the workers goes over TCP, so their ports must be open to this host and to each other.
///
/// A worker gets the processors, the memory and the devices that the flags of `srun` ask for ([`flag`](Self::flag)); without
/// flags, one processor.
///
/// ```no_run
/// # #[cfg(feature = "hosts")] {
/// # use selvedge_core as selvedge;
/// use selvedge::hosts::SlurmManager;
///
/// # fn main() -> Result<(), selvedge::BoxError> {
/// # let runtime = selvedge::Runtime::new();
/// let workers = runtime.add(SlurmManager::workers(8.try_into()?).flag("--cpus-per-task=4").flag("--gpus-per-task=1"))?;
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SlurmManager {
    count: NonZeroU16,
    program: String,
    flags: Vec<String>,
    command: Option<WorkerCommand>,
    terms: Terms,
}

/// The flags of each step, in front of the user's, which win: one task on one node with its own resources, no buffer between the
/// worker's output and the driver, and no word of `srun` in the output.
const FLAGS: [&str; 5] = ["--nodes=1", "--ntasks=1", "--exact", "--unbuffered", "--quiet"];

impl SlurmManager {
    /// A manager of this number of workers.
    #[must_use]
    pub fn workers(count: NonZeroU16) -> Self {
        SlurmManager {
            count,
            program: "srun".to_owned(),
            flags: Vec::new(),
            command: None,
            terms: Terms::default(),
        }
    }

    /// Adds a flag of `srun`, one word, such as `--partition=gpu`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Sets the program that is run for `srun`.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self
    }

    /// Sets the command that starts a worker on its node.
    #[must_use]
    pub fn command(mut self, command: WorkerCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// The command of a step. `srun` passes on its environment and its standard input, which brings the cookie.
    fn step(&self) -> Result<WorkerCommand, BoxError> {
        let worker = given_or_this_program(self.command.as_ref())?;
        let directory = worker.directory.map(|directory| format!("--chdir={directory}"));
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned());
        let flags = flags.chain(directory).chain(self.flags.iter().cloned());
        let arguments = flags.chain([worker.program]).chain(worker.arguments);
        let mut step = WorkerCommand::new(&self.program);
        step.arguments = arguments.collect();
        step.environment = worker.environment;
        step.bind = worker.bind;
        Ok(step)
    }
}

terms_setters!(SlurmManager);

impl ClusterManager for SlurmManager {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError> {
        let step = self.step()?;
        for number in 1..=self.count.get() {
            out(WorkerConfig::default()
                .ident(format!("slurm {number}"))
                .command(step.clone()));
        }
        Ok(())
    }

    terms_getters!();
}
