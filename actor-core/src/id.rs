//! Names of things as dense numbers: one type per kind of thing, so that a lane is never taken for an actor.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// One user actor of a runtime. Dense from 0, never reused within a runtime.
    ActorId,
    "actor"
);
id!(
    /// One lane (a thread that owns actors) of a runtime. [`LaneId::DRIVER`] is whatever thread calls an
    /// inline actor.
    LaneId,
    "lane"
);
id!(
    /// One process of a runtime. [`ProcessId::DRIVER`] is the process that made the runtime. A restarted worker
    /// keeps its number: the pid changes, the place in the plan does not.
    ProcessId,
    "process"
);

impl LaneId {
    /// The driver's own lane: inline actors live here, and it has no thread of its own.
    pub const DRIVER: Self = Self(0);
}

impl ProcessId {
    /// The process that made the runtime.
    pub const DRIVER: Self = Self(0);
}
