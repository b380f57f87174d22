//! The names of processes in errors: which worker a process is, and on which host.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::ProcessId;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cut_text::cut;

/// A process, as errors name it: by its worker, its number, and its host unless that is the driver's, as in "worker `shard 2`
/// (process 4 on host `node7`)". A process whose worker is not known, and the driver, is "process 4".
// One word, so that errors stay small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName(Arc<NamedProcess>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NamedProcess {
    process: ProcessId,
    #[serde(deserialize_with = "read_name")]
    worker: Option<Arc<str>>,
    #[serde(deserialize_with = "read_name")]
    host: Option<Arc<str>>,
}

/// The maximum length of a name that another process tells; a longer one is cut.
const TOLD_BYTES_MAX: usize = 1024;

/// Reads a name that another process tells, and cuts it. One that was cut before stays as it is.
fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    let told = Option::<Arc<str>>::deserialize(deserializer)?;
    Ok(told.map(|name| cut(&name, TOLD_BYTES_MAX).map_or(name, Into::into)))
}

impl ProcessName {
    /// The name of a worker's process. `host` is its host, unless that is the driver's.
    pub(crate) fn of_worker(process: ProcessId, worker: Arc<str>, host: Option<Arc<str>>) -> Self {
        let worker = Some(worker);
        ProcessName(Arc::new(NamedProcess {
            process,
            worker,
            host,
        }))
    }

    /// The name of a process of which only the number is known.
    pub(crate) fn of_number(process: ProcessId) -> Self {
        ProcessName(Arc::new(NamedProcess {
            process,
            worker: None,
            host: None,
        }))
    }

    /// The number of the process.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.0.process
    }

    /// The name of its worker; `None` for the driver, and for a process of which this one has heard nothing.
    #[must_use]
    pub fn worker(&self) -> Option<&str> {
        self.0.worker.as_deref()
    }

    /// The name of its host; `None` for the driver's host.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.worker(), self.host()) {
            (Some(worker), Some(host)) => {
                write!(f, "worker `{worker}` ({} on host `{host}`)", self.process())
            }
            (Some(worker), None) => write!(f, "worker `{worker}` ({})", self.process()),
            (None, _) => self.process().fmt(f),
        }
    }
}

/// The number of dead processes whose names are known. Others that have died are named by their numbers.
const DEAD_MAX: usize = 1024;

/// The names that a process knows: those of living processes, and of the last ones that have died.
#[derive(Default)]
pub(crate) struct NameBook(Mutex<KnownNames>);

#[derive(Default)]
struct KnownNames {
    by_process: IdMap<ProcessId, ProcessName>,
    /// Processes that have died, in this order.
    dead: VecDeque<ProcessId>,
}

impl NameBook {
    /// The names of the workers that the runtimes of this process have started, whose numbers differ, for errors about a worker of
    /// another runtime.
    pub(crate) fn of_all_runtimes() -> &'static NameBook {
        static NAMES: LazyLock<NameBook> = LazyLock::new(NameBook::default);
        &NAMES
    }

    pub(crate) fn note(&self, name: ProcessName) {
        let mut names = self.0.lock();
        // It may be one that was started again.
        names.dead.retain(|dead| *dead != name.process());
        let before = names.by_process.insert(name.process(), name);
        drop(names);
        drop(before);
    }

    /// A process has died.
    pub(crate) fn died(&self, process: ProcessId) {
        let mut names = self.0.lock();
        names.dead.retain(|dead| *dead != process);
        names.dead.push_back(process);
        let oldest = match names.dead.len() > DEAD_MAX {
            true => names.dead.pop_front(),
            false => None,
        };
        let forgotten = oldest.and_then(|oldest| names.by_process.remove(&oldest));
        drop(names);
        drop(forgotten);
    }

    /// A process is of no interest any more.
    pub(crate) fn forget(&self, process: ProcessId) {
        let forgotten = self.0.lock().by_process.remove(&process);
        drop(forgotten);
    }

    pub(crate) fn name(&self, process: ProcessId) -> ProcessName {
        let known = self.0.lock().by_process.get(&process).cloned();
        known.unwrap_or_else(|| ProcessName::of_number(process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_with_what_is_known_of_it() {
        let process = ProcessId::new(4).unwrap();
        let book = NameBook::default();
        assert_eq!(book.name(process).to_string(), "process 4");
        for (host, text) in [
            (None, "worker `shard 2` (process 4)"),
            (Some("node7"), "worker `shard 2` (process 4 on host `node7`)"),
        ] {
            book.note(ProcessName::of_worker(
                process,
                "shard 2".into(),
                host.map(Into::into),
            ));
            assert_eq!(book.name(process).to_string(), text);
        }
    }

    #[test]
    fn living_processes_and_the_last_ones_that_have_died_are_known_by_name() {
        let book = NameBook::default();
        let process = |number| ProcessId::new(number).unwrap();
        let note = |number| book.note(ProcessName::of_worker(process(number), "w".into(), None));
        let is_named = |number| book.name(process(number)).worker().is_some();
        (1..=5000).for_each(note);
        // The first one is started again each time.
        for number in 2..=5000 {
            book.died(process(1));
            note(1);
            book.died(process(number));
        }
        assert!(is_named(1) && is_named(5000) && is_named(5001 - DEAD_MAX as u32));
        assert!(!is_named(2) && !is_named(5000 - DEAD_MAX as u32));
        let names = book.0.lock();
        assert_eq!(
            (names.by_process.len(), names.dead.len()),
            (DEAD_MAX + 1, DEAD_MAX)
        );
    }
}
