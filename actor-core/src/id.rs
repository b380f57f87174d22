//! Names of things as numbers: one type per kind of thing, so that a lane is never taken for an actor, and one count per
//! process, so that what belongs to one runtime is never taken for something of another.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal, from $first:literal) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The next number, for any runtime of this process.
            pub(crate) fn next() -> Self {
                static NEXT: AtomicU32 = AtomicU32::new($first);
                // Relaxed: numbers only have to differ.
                Self(NEXT.fetch_add(1, Ordering::Relaxed))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// One user actor. Counted from 0 through all runtimes of the process that made them.
    ActorId,
    "actor",
    from 0
);
id!(
    /// One lane (a thread that owns actors). Counted from 1 through all runtimes of the process that made them;
    /// [`LaneId::DRIVER`] is whatever thread calls an inline actor.
    LaneId,
    "lane",
    from 1
);
id!(
    /// One process. Workers are counted from 1 through all runtimes of the process that made them;
    /// [`ProcessId::DRIVER`] is that process. A restarted worker keeps its number: the pid changes, the place in the
    /// plan does not.
    ProcessId,
    "process",
    from 1
);

impl LaneId {
    /// The driver's own lane: inline actors live here, and it has no thread of its own.
    pub const DRIVER: Self = Self(0);
}

impl ProcessId {
    /// The process that made the runtime.
    pub const DRIVER: Self = Self(0);
}
