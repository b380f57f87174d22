//! Options of a call for the scheduler.

use selvedge_objects::refs::RefId;
use serde::{Deserialize, Serialize};

use super::outer::{NamedReferences, NestedName};
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionEntry, FunctionId};
use crate::schedule::Resources;

/// The options of a call for the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskOptions {
    /// The times that the call may run again; `None` if it may not, because its function is not pure.
    pub(crate) retries: Option<u32>,
    pub(crate) needs: Resources,
}

impl TaskOptions {
    /// The options of a function. An `async fn` shares a thread with others, so it needs no cpu by default.
    pub(crate) fn of(function: &FunctionEntry) -> Self {
        let facts = &function.facts;
        let cpus = facts.cpus.unwrap_or(u32::from(!function.is_async()));
        TaskOptions {
            retries: facts.retries,
            needs: Resources::cpus(cpus).gpus(facts.gpus),
        }
    }
}

/// A call that a worker submits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// The worker's name for the letter.
    pub(crate) call: CallId,
    /// The name of the call, if a pure call submits it.
    pub(crate) nested: Option<NestedName>,
    /// The references in the arguments that nested calls have made or put.
    pub(crate) named: NamedReferences,
    pub(crate) function: FunctionId,
    /// The bytes of the arguments that lie in the store.
    pub(crate) stored_bytes: u64,
    /// The references whose values the function takes.
    pub(crate) inputs: Vec<RefId>,
    pub(crate) options: TaskOptions,
    /// The process that the call is for, if it does not matter what else that has to do.
    pub(crate) pinned: Option<selvedge_cluster::peer::ProcessId>,
    /// Whether the function returns a reference, which its value stands for.
    pub(crate) is_alias: bool,
    /// The members that the call has gone through.
    pub(crate) hops: u8,
}
