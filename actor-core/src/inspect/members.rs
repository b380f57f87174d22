//! The processes of a runtime, to look at.

use std::sync::Arc;

use selvedge_cluster::peer;

use crate::directory::Directory;
use crate::process_name::ProcessName;

/// A process of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberInfo {
    /// The number of the process, with its worker and, unless it is the driver's, its host.
    pub name: ProcessName,
    /// The pid on its host; `None` while no process runs.
    pub pid: Option<u32>,
    /// The state of the process.
    pub state: MemberState,
}

/// The state of a process of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// The process that was asked.
    Here,
    /// The first process of the worker has not joined yet, or the next one after a death.
    Starting,
    /// The process has joined, and no death of it has been noticed.
    Lives,
    /// No process of the worker will run any more, for this reason.
    Ended(String),
}

/// The processes that a directory knows, and this one.
pub(super) fn members(directory: &Directory, me: peer::ProcessId) -> Vec<MemberInfo> {
    let here = MemberInfo {
        name: ProcessName::of_number(me),
        pid: Some(std::process::id()),
        state: MemberState::Here,
    };
    let kept = directory
        .workers()
        .into_iter()
        .map(|worker| Arc::clone(&worker.record));
    let mut records: Vec<_> = kept.chain(directory.let_in()).collect();
    records.sort_unstable_by_key(|record| record.id());
    let others = records.iter().map(|record| {
        let pid = record.pid();
        MemberInfo {
            name: record.process_name(),
            pid,
            state: match (record.over(), pid) {
                (Some(_), _) => MemberState::Ended(record.why_gone()),
                (None, Some(_)) => MemberState::Lives,
                (None, None) => MemberState::Starting,
            },
        }
    });
    std::iter::once(here).chain(others).collect()
}
