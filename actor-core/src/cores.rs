//! Cores, and threads that are pinned to one core.
//!
//! The kernel may wake a thread on the core of the thread that woke it. Two stages that compute at the same time then
//! take turns on one core while another core is idle.

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;

use crate::platform::cores::{Pinned, allowed};

/// Returns the numbers of the cores that the calling thread may run on; empty if the system does not tell them.
#[must_use]
pub fn cores() -> Vec<u32> {
    allowed()
}

/// The number of cores that this process may use. The system is asked once, because the answer costs it reads of files.
pub(crate) fn core_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}

/// The reason that an actor's thread cannot be pinned to a core.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreError {
    #[error(
        "its thread cannot keep to core {core}: {error}; it may run on {}",
        listed(may)
    )]
    Refused {
        core: u32,
        error: io::Error,
        may: Vec<u32>,
    },
    #[error(
        "its thread keeps to core {kept} for another actor and cannot keep to core {core}: name the same core, or give it a lane of \
         its own"
    )]
    Taken { kept: u32, core: u32 },
    #[error(
        "an inline actor runs on whichever thread drives, and that does not keep to core {core}: give it a thread"
    )]
    Inline { core: u32 },
}

fn listed(cores: &[u32]) -> String {
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    match cores.len() {
        0 => "no core that is known".to_owned(),
        1 => format!("core {}", cores.concat()),
        _ => format!("cores {}", cores.join(", ")),
    }
}

/// The pinning of the calling thread to one core, until it is [freed](Self::free).
pub(crate) struct Kept {
    pub(crate) core: u32,
    pinned: Pinned,
}

impl Kept {
    /// Pins the calling thread to `core`, which must be one of [`cores`].
    pub(crate) fn to(core: u32) -> Result<Self, CoreError> {
        let refused = |error| CoreError::Refused {
            core,
            error,
            may: cores(),
        };
        // The kernel would also accept cores that the parent of this process had excluded.
        if !cores().contains(&core) {
            return Err(refused(io::Error::from(io::ErrorKind::InvalidInput)));
        }
        let pinned = Pinned::to(core).map_err(refused)?;
        Ok(Kept { core, pinned })
    }

    /// Lets the thread run on the cores that were allowed before. Must be called on the thread that was pinned.
    pub(crate) fn free(self) {
        self.pinned.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_to_the_core_it_was_told() {
        // Empty where the system tells no cores.
        for core in cores() {
            let kept = std::thread::spawn(move || {
                let kept = Kept::to(core).unwrap();
                let while_kept = cores();
                kept.free();
                (while_kept, cores())
            });
            assert_eq!(kept.join().unwrap(), (vec![core], cores()));
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_and_nothing_changes() {
        let refused = std::thread::spawn(|| {
            let before = cores();
            let told = [1023, 1024, u32::MAX].map(|core| Kept::to(core).err().unwrap().to_string());
            (before == cores(), told)
        });
        let (unchanged, told) = refused.join().unwrap();
        assert!(unchanged);
        for text in told {
            assert!(
                text.contains("cannot keep to core") && text.contains("it may run on core"),
                "{text}"
            );
        }
    }
}
