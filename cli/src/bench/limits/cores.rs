//! The cores to which the two sides of a measurement are pinned.

use anyhow::Context;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores on which the two sides of a limit run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Each on a core of its own.
    Two,
    /// Both on the same core: the cost of the software without a wake-up across cores.
    One,
    /// Any core that the scheduler chooses, as for a graph's lanes.
    Any,
}

/// A core for the asking side and one for the answering side; `None` leaves a side unpinned.
pub type Pair = (Option<usize>, Option<usize>);

impl Cores {
    /// Returns the cores to pin to.
    ///
    /// # Errors
    /// Two cores are required, but the process may use only one.
    pub fn pair(self) -> anyhow::Result<Pair> {
        let mut cores = allowed()?.into_iter();
        let first = cores.next().context("no core is allowed")?;
        match self {
            Cores::Two => {
                let second = cores
                    .next()
                    .context("needs two cores, and this process may use one")?;
                Ok((Some(first), Some(second)))
            }
            Cores::One => Ok((Some(first), Some(first))),
            Cores::Any => Ok((None, None)),
        }
    }
}

/// Returns the cores that this thread may use.
///
/// # Errors
/// The system call fails.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("sched_getaffinity")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect())
}

/// Pins the calling thread to `core`; threads and processes that it starts afterwards inherit this.
pub fn pin(core: Option<usize>) -> anyhow::Result<()> {
    core.map_or(Ok(()), |core| keep_on(None, &[core]))
}

/// Has all threads of the process `pid` run on `cores`; threads that they start afterwards inherit this.
///
/// # Errors
/// There is no such process, or it may not use one of the cores.
pub fn place(pid: u32, cores: &[usize]) -> anyhow::Result<()> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = thread?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        let thread = thread.and_then(Pid::from_raw);
        keep_on(Some(thread.context("a thread without a number")?), cores)?;
    }
    Ok(())
}

fn keep_on(thread: Option<Pid>, cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        anyhow::ensure!(*core < CpuSet::MAX_CPU, "there is no core {core}");
        set.set(*core);
    }
    match sched_setaffinity(thread, &set) {
        // A thread that has ended meanwhile needs no core.
        Err(Errno::SRCH) if thread.is_some() => Ok(()),
        done => done.with_context(|| format!("cannot stay on the cores {cores:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        let (core, _) = Cores::One.pair().unwrap();
        let seen = std::thread::spawn(move || pin(core).map(|()| rustix::thread::sched_getcpu()));
        assert_eq!(Some(seen.join().unwrap().unwrap()), core);
    }

    #[test]
    fn a_process_that_is_placed_runs_there_with_all_its_threads() {
        let core = *allowed().unwrap().last().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        place(child.id(), &[core]).unwrap();
        let set = sched_getaffinity(Pid::from_raw(child.id() as i32)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((set.count(), set.is_set(core)), (1, true));
        assert!(place(child.id(), &[core]).is_err());
    }
}
