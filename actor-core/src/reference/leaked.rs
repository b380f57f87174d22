//! References that a shutdown has left.

use std::fmt;

use selvedge_objects::refs::{Leak, RefId};

use crate::process_name::{NameBook, ProcessName};

/// A reference that another process still held, or about which it still owed an answer, when the time of a shutdown was over. As text
/// it also says what was awaited, with the fork under which the reference was passed if others hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedRef {
    leak: Leak,
    process: ProcessName,
}

impl LeakedRef {
    pub(crate) fn new(leak: Leak, names: &NameBook) -> Self {
        let process = names.name(leak.peer().process);
        LeakedRef { leak, process }
    }

    /// The reference's name: [`Ref::id`](crate::Ref::id). `None` for answers that a process owes about several.
    #[must_use]
    pub fn id(&self) -> Option<RefId> {
        self.leak.id()
    }

    /// The process that held the reference, or owed the answer.
    #[must_use]
    pub fn process(&self) -> &ProcessName {
        &self.process
    }
}

impl fmt::Display for LeakedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.process, self.leak)
    }
}
