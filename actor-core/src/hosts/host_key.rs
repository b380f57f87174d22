//! Hosts: which processes can share memory.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::id::HostId;
use crate::platform;

/// The variable by which a process passes for one of another host, for tests.
const ENV_HOST: &str = "SELVEDGE_HOST";

/// The name of a host, which processes of one host have in common and no others: its boot, the namespace of its pids, and the
/// user. Processes with equal names can open each other's memory, so two containers of one machine are two hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HostKey(String);

impl HostKey {
    /// The host of this process.
    pub(crate) fn mine() -> Self {
        HostKey(match std::env::var(ENV_HOST) {
            Ok(name) => name,
            Err(_) => platform::host::name(),
        })
    }

    /// The name.
    pub(crate) fn into_name(self) -> String {
        self.0
    }

    /// The number of the host among those that this process has heard of; 0 for its own.
    pub(crate) fn number(&self) -> HostId {
        static OTHERS: Mutex<BTreeMap<HostKey, HostId>> = Mutex::new(BTreeMap::new());
        static MINE: OnceLock<HostKey> = OnceLock::new();
        if self == MINE.get_or_init(HostKey::mine) {
            return HostId::DRIVER;
        }
        let mut others = OTHERS.lock();
        if let Some(known) = others.get(self) {
            return *known;
        }
        let number = HostId(u32::try_from(others.len() + 1).unwrap_or(u32::MAX));
        others.insert(self.clone(), number);
        number
    }
}

/// The machine of a worker, as the worker describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: HostKey,
    /// The name of the host in errors.
    pub(crate) name: String,
    /// The logical cores that the worker may use.
    pub(crate) cores: NonZeroUsize,
}

/// The cores of a machine that are believed.
const CORES_MAX: u32 = 1024;

/// The characters of a host's name in errors.
const NAME_CHARACTERS: usize = 255;

impl Machine {
    /// The cores that submitted calls may have: a worker says how many there are.
    pub(crate) fn believed_cores(&self) -> u32 {
        u32::try_from(self.cores.get()).map_or(CORES_MAX, |cores| cores.min(CORES_MAX))
    }

    /// The name of the host, as it can be shown: the text comes from another process.
    pub(crate) fn shown_name(&self) -> String {
        let shown = self.name.chars().filter(|it| !it.is_control());
        shown.take(NAME_CHARACTERS).collect()
    }

    /// The machine of this process.
    pub(crate) fn mine() -> Self {
        Machine {
            host: HostKey::mine(),
            name: std::env::var(ENV_HOST).unwrap_or_else(|_| platform::host::network_name()),
            cores: available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}
