//! Names of processes.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// A process of the cluster. The head has number 1; a number is never given to another process.
///
/// ```
/// use selvedge_cluster::peer::ProcessId;
/// assert_eq!(ProcessId::new(1), Some(ProcessId::HEAD));
/// assert_eq!(ProcessId::new(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(NonZeroU32);

impl ProcessId {
    /// The process that decides who is a member.
    pub const HEAD: ProcessId = ProcessId(NonZeroU32::MIN);

    /// The process of a number; `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(ProcessId)
    }

    /// The number, from 1.
    pub fn number(self) -> u32 {
        self.0.get()
    }

    /// The first life of this process.
    pub const fn first_life(self) -> Peer {
        Peer {
            process: self,
            incarnation: Incarnation(1),
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// The number of a process's life: a process that is started again, or that was declared dead by mistake and joins
/// again, has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u32);

/// One life of one process: the author of messages, and the holder of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// The process.
    pub process: ProcessId,
    /// The life of that process.
    pub incarnation: Incarnation,
}

// The first life of a process is not worth a word.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            Incarnation(0 | 1) => self.process.fmt(f),
            Incarnation(later) => write!(f, "{} (incarnation {later})", self.process),
        }
    }
}
