//! Which cores the two sides stay on.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::args::Cores;

/// A core for the asking and one for the answering side; `None` leaves a side where it is.
pub(crate) type Pair = (Option<usize>, Option<usize>);

/// The cores to pin to.
///
/// # Errors
/// Two cores are asked for where the process may only use one.
pub(crate) fn pair(cores: Cores) -> anyhow::Result<Pair> {
    let allowed = sched_getaffinity(None).context("sched_getaffinity")?;
    let mut cores_allowed = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let first = cores_allowed.next().context("no core is allowed")?;
    match cores {
        Cores::Two => {
            let second = cores_allowed
                .next()
                .context("needs two cores, and this process may use one")?;
            Ok((Some(first), Some(second)))
        }
        Cores::One => Ok((Some(first), Some(first))),
        Cores::Any => Ok((None, None)),
    }
}

/// Keeps the calling thread on `core`, and what it starts from now on as well.
pub(crate) fn pin(core: Option<usize>) -> anyhow::Result<()> {
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
        let (core, _) = pair(Cores::One).unwrap();
        let seen = std::thread::spawn(move || pin(core).map(|()| rustix::thread::sched_getcpu()));
        assert_eq!(Some(seen.join().unwrap().unwrap()), core);
    }
}
