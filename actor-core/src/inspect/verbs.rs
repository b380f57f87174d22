//! The verbs of a runtime with which a program looks at itself, and what it lets others see.

use super::answer::answers;
use super::members::{MemberInfo, members};
use super::serve::Answers;
use crate::runtime::{Inner, Runtime};
use crate::task::listing::{CallInfo, FunctionInfo, functions};

impl Runtime {
    /// The submitted calls that this process schedules, in the order of their submission: those that have not ended, and those
    /// whose value somebody holds.
    #[must_use]
    pub fn calls(&self) -> Vec<CallInfo> {
        self.remote().tasks().listed(usize::MAX).0
    }

    /// The remote functions of the program, in the order of their paths. All processes of a runtime have the same.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionInfo> {
        functions()
    }

    /// The processes of this runtime, in the order of their numbers: this one, and in the process that made the runtime its workers
    /// and jobs.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        members(&self.inner().directory, self.remote().me())
    }
}

impl Inner {
    /// The tables that other processes may ask for.
    pub(crate) fn answers(&self) -> Answers {
        answers(&self.directory, self.remote())
    }
}
