//! The cores to which the two sides of a measurement are pinned.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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
    let Some(core) = core else { return Ok(()) };
    anyhow::ensure!(core < CpuSet::MAX_CPU, "there is no core {core}");
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot stay on core {core}"))
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
}
