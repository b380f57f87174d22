//! Identifiers: one type of number per kind of object, so that a lane is never mistaken for an actor, and one counter
//! per process, so that an object of one runtime is never mistaken for an object of another.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal, from $first:literal) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the next number, unique among all runtimes of this process.
            pub(crate) fn next() -> Self {
                // Relaxed: the numbers only have to differ.
                Self(Self::counter().fetch_add(1, Ordering::Relaxed))
            }

            fn counter() -> &'static AtomicU32 {
                static NEXT: AtomicU32 = AtomicU32::new($first);
                &NEXT
            }
        }

        selvedge_cluster::id_key!($name as u32: |id| id.0);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A user actor. Numbers start at 0 and are counted through all runtimes of the process that made them.
    ActorId,
    "actor",
    from 0
);
id!(
    /// A lane (a thread that owns actors). Numbers start at 1 and are counted through all runtimes of the process that
    /// made them. [`LaneId::DRIVER`] stands for the thread that calls an inline actor.
    LaneId,
    "lane",
    from 1
);
id!(
    /// A process of a plan: [`ProcessId::DRIVER`], which made the runtime, or one of its workers. Workers have the numbers
    /// that they have among the peers, from 2, counted through all runtimes of the process that made them. A restarted
    /// worker keeps its number: the pid changes, the place in the plan does not.
    ProcessId,
    "process",
    from 2
);

/// A host: processes of one host can share memory. [`HostId::DRIVER`] is the host of the process that made the runtime.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// The place of an actor: a lane of a process on a host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Address {
    /// The host.
    pub host: HostId,
    /// The process on the host.
    pub process: ProcessId,
    /// The lane of the process.
    pub lane: LaneId,
}

selvedge_cluster::id_key!(Address as (u32, (ProcessId, LaneId)): |at| (at.host.0, (at.process, at.lane)));

impl Address {
    /// The address of the driver: the lane of the threads that call inline actors.
    pub const DRIVER: Self = Self::of(ProcessId::DRIVER, LaneId::DRIVER);

    /// Returns the address of a lane of a process on the driver's host.
    #[must_use]
    pub const fn of(process: ProcessId, lane: LaneId) -> Self {
        let host = HostId::DRIVER;
        Self { host, process, lane }
    }

    /// Whether both addresses lie in one process.
    #[must_use]
    pub fn is_near(self, other: Self) -> bool {
        (self.host, self.process) == (other.host, other.process)
    }
}

impl HostId {
    /// The host of the process that made the runtime.
    pub const DRIVER: Self = Self(0);
}

impl LaneId {
    /// The driver's own lane. Inline actors live here; the lane has no thread of its own.
    pub const DRIVER: Self = Self(0);
}

impl ProcessId {
    /// The process that made the runtime.
    pub const DRIVER: Self = Self(1);

    /// The process of a number among the peers.
    #[cfg(feature = "hosts")]
    pub(crate) fn of_peer(process: selvedge_cluster::peer::ProcessId) -> Self {
        Self(process.number())
    }

    /// The first number that a process gives which is a member of a runtime that another process has made. The numbers of that runtime's
    /// processes are below, so a worker that such a process starts itself is never taken for one of them.
    pub(crate) const FIRST_OF_MEMBER: u32 = 1_000_000_001;

    /// Gives no number below this one of the peers from now on: another process, or an earlier life of this head, has given it.
    pub(crate) fn skip_to(next: u32) {
        // Relaxed: the numbers only have to differ.
        Self::counter().fetch_max(next, Ordering::Relaxed);
    }

    /// The process among the peers.
    pub(crate) fn among_peers(self) -> selvedge_cluster::peer::ProcessId {
        selvedge_cluster::peer::ProcessId::new(self.0).unwrap_or(selvedge_cluster::peer::ProcessId::HEAD)
    }
}

/// The number of the flight of an async method, which no other flight of its lane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightId(pub(crate) u64);

selvedge_cluster::id_key!(FlightId as u64: |flight| flight.0);
