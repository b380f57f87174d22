//! Which cores the two sides stay on.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the two sides of a limit run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Each on a core of its own.
    Two,
    /// Both on the same core: what the software costs without a wake across cores.
    One,
    /// Wherever the scheduler puts them, as for a graph's lanes.
    Any,
}

/// A core for the asking and one for the answering side; `None` leaves a side where it is.
pub type Pair = (Option<usize>, Option<usize>);

impl Cores {
    /// The cores to pin to.
    ///
    /// # Errors
    /// Two cores are asked for where the process may only use one.
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

/// The cores that this thread may use.
///
/// # Errors
/// The system does not say.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("sched_getaffinity")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect())
}

/// Keeps the calling thread on `core`, and what it starts from now on as well.
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
