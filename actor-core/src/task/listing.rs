//! The submitted calls of a process, and its functions, to look at.

use selvedge_cluster::peer::ProcessId;
use selvedge_objects::refs::RefId;

use super::board::{Task, TaskLife};
use super::tasks::Tasks;
use crate::lineage::CallDigest;
use crate::remote::function::FUNCTIONS;
use crate::schedule::Resources;

/// A submitted call whose value somebody holds, or that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInfo {
    /// The call's name, the same on every run of it.
    pub digest: CallDigest,
    /// The path of the function.
    pub function: &'static str,
    /// The state of the call.
    pub state: CallState,
    /// The resources that it needs while it runs.
    pub needs: Resources,
    /// The number of times that it was begun, or is to be begun.
    pub attempts: u32,
    /// The reference to its value.
    pub value: RefId,
    /// The bytes of its encoded arguments. A large one lies in the store, and counts as a reference.
    pub inline_bytes: usize,
    /// The references in its arguments, as far as these are kept.
    pub references: Vec<RefId>,
}

/// The state of a submitted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallState {
    /// Inputs are missing, or no worker has room.
    Queued,
    /// The call is at this process: it runs, or starts when another one ends.
    Running(ProcessId),
    /// The value of another call is awaited: the function has returned the reference to it, or a pure call that runs again has submitted
    /// that one before.
    Alias,
    /// The value is there.
    Made,
    /// The call has failed, or its value is lost.
    Failed,
}

/// A remote function of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// The number by which processes find it, a hash of path and signature.
    pub id: u64,
    /// The path.
    pub path: &'static str,
    /// The text of the signature.
    pub signature: &'static str,
    /// The times that a call may run again; `None` if the function is not pure.
    pub retries: Option<u32>,
}

/// The remote functions of the program, of the table that the linker has made, in the order of their paths.
pub(crate) fn functions() -> Vec<FunctionInfo> {
    let functions = FUNCTIONS.iter().map(|function| FunctionInfo {
        id: function.id().0,
        path: function.path,
        signature: function.signature,
        retries: function.facts.retries,
    });
    let mut functions: Vec<_> = functions.collect();
    functions.sort_unstable_by_key(|function| (function.path, function.signature));
    functions
}

impl Tasks {
    /// The first calls, and the number of those that are left.
    pub(crate) fn listed(&self, calls_max: usize) -> (Vec<CallInfo>, usize) {
        let board = self.board.lock();
        // Of some others the arguments are kept, from which a value may be made again.
        let is_listed = |task: &Task| !(task.is_released && task.has_ended());
        let mut tasks = board.tasks.iter().filter(|(_, task)| is_listed(task));
        let calls = tasks.by_ref().take(calls_max).map(|(call, task)| CallInfo {
            digest: task.new.digest,
            function: task.new.function.path,
            state: match &task.life {
                TaskLife::Queued => CallState::Queued,
                TaskLife::Runs { post, .. } => CallState::Running(post.worker.process),
                TaskLife::Stands => CallState::Alias,
                TaskLife::Ended { is_failed: false } => CallState::Made,
                TaskLife::Ended { is_failed: true } => CallState::Failed,
            },
            needs: task.new.options.needs.clone(),
            attempts: board.lineage.attempt(*call),
            value: task.new.object,
            inline_bytes: task.new.arguments.inline_bytes(),
            references: task.new.arguments.references(),
        });
        let calls: Vec<_> = calls.collect();
        (calls, tasks.count())
    }
}
