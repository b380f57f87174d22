//! Placements and policies: where an actor lives, and what happens when it fails. Chosen at spawn.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The place of an actor. The same code gives the same results at each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Placement {
    /// On the caller's own thread: no other thread, no wake-up. For tests and tiny graphs.
    Inline,
    /// On a thread of its own in this process.
    Thread,
    /// In a worker process of its own.
    Process,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Inline => "inline",
            Placement::Thread => "thread",
            Placement::Process => "process",
        })
    }
}

/// An error: the text names no placement.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement `{0}`: use inline, thread or process")]
pub struct UnknownPlacement(pub String);

selvedge_channels::debug_is_report!(UnknownPlacement);

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "inline" => Ok(Placement::Inline),
            "thread" => Ok(Placement::Thread),
            "process" => Ok(Placement::Process),
            other => Err(UnknownPlacement(other.to_owned())),
        }
    }
}

/// The present place of an actor, for display: `inline`, `thread`, or `process with pid 4121`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlacementLabel {
    /// On the caller's own thread.
    Inline,
    /// On a lane of this process.
    Thread,
    /// In the worker with this pid; `None` while there is no process (dead or restarting).
    Process(Option<u32>),
}

impl fmt::Display for PlacementLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementLabel::Inline => f.write_str("inline"),
            PlacementLabel::Thread => f.write_str("thread"),
            PlacementLabel::Process(Some(pid)) => write!(f, "process with pid {pid}"),
            PlacementLabel::Process(None) => f.write_str("process (gone)"),
        }
    }
}

/// The policy for the death of an actor's worker process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Restart {
    /// The actor stays dead. The default, because the state is lost with the process, and only the user knows whether a
    /// fresh state is acceptable.
    #[default]
    Never,
    /// A new worker is started and the actor is rebuilt from its constructor's arguments, at most `max` times over the
    /// actor's life; 0 is `Never`. With [`Spawn::checkpoint_every`](crate::Spawn::checkpoint_every), it continues from its last
    /// checkpoint, if there is one.
    OnFailure {
        /// The maximum number of restarts.
        max: u32,
    },
}

/// The policy for a panic in one of an actor's methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnPanic {
    /// The state stays as the panic left it. The default.
    #[default]
    Keep,
    /// The state is dropped and rebuilt from the constructor's arguments. With
    /// [`Spawn::checkpoint_every`](crate::Spawn::checkpoint_every), the actor continues from its last checkpoint, if there is one. If the constructor fails, the next call tries again.
    Rebuild,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_print_and_parse() {
        for placement in [Placement::Inline, Placement::Thread, Placement::Process] {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        assert!("moon".parse::<Placement>().is_err());
        assert_eq!(
            PlacementLabel::Process(Some(4121)).to_string(),
            "process with pid 4121"
        );
    }
}
