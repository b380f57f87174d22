//! The hello, which is the first message on a worker's link: driver and worker check that they are the same program.

use serde::{Deserialize, Serialize};

use crate::actor::registry::registry_hash;
use crate::platform::build_id;

/// The version of the link's messages. Raised whenever they change.
pub(crate) const PROTOCOL_VERSION: u32 = 6;

/// The identity that each side reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// The executable's build id; see `build_id`.
    pub(crate) build: String,
    /// The hash of the registry, [`registry_hash`].
    pub(crate) registry: u64,
}

/// The reason that driver and worker are not the same program.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The two sides use different versions of the messages.
    #[error("the driver speaks version {driver} of the worker protocol, the worker version {worker}")]
    Protocol {
        /// The driver's version.
        driver: u32,
        /// The worker's version.
        worker: u32,
    },
    /// The two sides are different builds.
    #[error(
        "the driver is build {driver}, the worker build {worker}: was the executable replaced while it ran?"
    )]
    Build {
        /// The driver's build id.
        driver: String,
        /// The worker's build id.
        worker: String,
    },
    /// The two sides know different actor types.
    #[error(
        "driver and worker know different actor types (registry {driver:016x} and {worker:016x}); \
         the driver knows: {}",
        known.join(", ")
    )]
    Registry {
        /// The driver's registry hash.
        driver: u64,
        /// The worker's registry hash.
        worker: u64,
        /// The names that the driver knows.
        known: Vec<&'static str>,
    },
}

selvedge_channels::debug_is_report!(HelloError);

impl Hello {
    /// Returns the hello of the current process.
    pub(crate) fn mine() -> Self {
        Self {
            protocol: PROTOCOL_VERSION,
            build: build_id::of_this_program(),
            registry: registry_hash(),
        }
    }

    /// Compares the driver's hello with that of a worker.
    pub(crate) fn check(&self, worker: &Hello) -> Result<(), HelloError> {
        if self.protocol != worker.protocol {
            return Err(HelloError::Protocol {
                driver: self.protocol,
                worker: worker.protocol,
            });
        }
        if self.build != worker.build {
            return Err(HelloError::Build {
                driver: self.build.clone(),
                worker: worker.build.clone(),
            });
        }
        if self.registry != worker.registry {
            let known = crate::actor::registry::known_actors();
            return Err(HelloError::Registry {
                driver: self.registry,
                worker: worker.registry,
                known,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jcode_10_a_program_agrees_with_itself_and_with_no_other_version() {
        let mine = Hello::mine();
        assert_eq!(mine.check(&Hello::mine()), Ok(()));
        let other = Hello {
            protocol: PROTOCOL_VERSION + 1,
            ..mine.clone()
        };
        assert!(matches!(
            mine.check(&other),
            Err(HelloError::Protocol { driver, worker }) if driver + 1 == worker
        ));
        let other = Hello {
            build: "feed".into(),
            ..mine.clone()
        };
        assert!(matches!(mine.check(&other), Err(HelloError::Build { .. })));
        let other = Hello {
            registry: mine.registry ^ 1,
            ..mine.clone()
        };
        assert!(matches!(mine.check(&other), Err(HelloError::Registry { .. })));
    }
}
