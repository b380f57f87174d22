//! Deaths: how a process or a lane ended, as far as it is known.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::ActorId;
use crate::platform;
use crate::process_name::ProcessName;

/// The way in which a process, a lane or an actor ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Exit {
    /// The process exited with this code.
    Code(i32),
    /// The process was killed by this signal.
    Signal(i32),
    /// No process ended: an actor was killed, a lane did not return, or a constructor failed. The text gives the
    /// reason.
    Ended(String),
    /// The actor was built again, and its last checkpoint could not be restored, for this reason.
    NotRestored(String),
    /// The process was killed by the runtime, because the program asked for it, or because a graph could not end otherwise. The text
    /// gives the reason.
    Killed(String),
    /// The process was killed by the runtime, because it was stopped or frozen: it gave no sign of life for this time.
    Silent(Duration),
    /// The process was killed by the runtime, because its link had ended and everybody else counted it as dead. The text gives
    /// the reason: it was cut off, or could not be reached any more.
    Severed(String),
    /// The link to a worker that has dialled in has ended, for this reason, and the worker is not let in again. Nobody sees whether
    /// its process has ended.
    Fenced(String),
    /// The runtime was shut down.
    Shutdown,
    /// The process is gone, and the system did not report how it ended.
    Unknown,
}

/// The reason of the end of a worker, and of the actors in it, that was asked for.
pub(crate) const WORKER_ENDED: &str = "its worker was ended";

/// The reason for which a worker is killed that was told to end, and could not in time.
pub(crate) const LATE: &str = "it was told to end, and a method or function in it did not return in time";

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => match platform::signal::name(*signal) {
                Some(name) => write!(f, "signal {signal} ({name}){}", platform::signal::help(*signal)),
                None => write!(f, "signal {signal}"),
            },
            Exit::Ended(why) => f.write_str(why),
            Exit::NotRestored(why) => write!(f, "it was built again, and {why}"),
            Exit::Killed(why) => write!(f, "the runtime killed it, because {why}"),
            Exit::Silent(limit) => write!(
                f,
                "it was killed, because it gave no sign of life for {limit:?} (was it stopped, or frozen? \
                 help: Runtime::silence_timeout sets this time)"
            ),
            Exit::Severed(why) => write!(f, "it was killed, because it counted as dead: {why}"),
            Exit::Fenced(why) => write!(
                f,
                "its link has ended, and it is not let in again, whether its process lives or not: {why}"
            ),
            Exit::Shutdown => f.write_str("the runtime was shut down"),
            Exit::Unknown => f.write_str("unknown cause"),
        }
    }
}

/// The death of a worker process or of a single actor: the actors, the process, the exit, and the last lines of output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Death {
    /// The name of the actor that the death is reported for (the first one if several shared the process).
    pub actor: String,
    /// All actors that died.
    pub actors: Box<[ActorId]>,
    /// The worker whose process died; `None` if no process died.
    pub worker: Option<ProcessName>,
    /// The pid of the worker process that died; `None` if no process died.
    pub pid: Option<u32>,
    /// The way in which the process or the actor ended.
    pub exit: Exit,
    /// The last lines of standard error without the frames of backtraces, oldest first; at most 20.
    pub stderr_tail: Vec<String>,
}

selvedge_channels::debug_is_report!(Death);

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor `{}` ", self.actor)?;
        match (&self.worker, self.pid) {
            (Some(worker), Some(pid)) => write!(f, "died with {worker}, pid {pid}: {}", self.exit)?,
            (None, _) | (_, None) => write!(f, "died: {}", self.exit)?,
        }
        if self.actors.len() > 1 {
            write!(f, " ({} actors shared the process)", self.actors.len())?;
        }
        if let Some(last) = self.stderr_tail.last() {
            write!(f, "; last line on stderr: {last}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Death {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_names_actor_pid_exit_and_last_words() {
        let death = Death {
            actor: "shard0".into(),
            actors: Box::new([ActorId(1), ActorId(2)]),
            worker: Some(ProcessName::of_worker(
                crate::id::ProcessId(2).among_peers(),
                "w".into(),
                Some("node7".into()),
            )),
            pid: Some(4121),
            exit: Exit::Code(9),
            stderr_tail: vec!["out of luck".into()],
        };
        assert_eq!(
            death.to_string(),
            "actor `shard0` died with worker `w` (process 2 on host `node7`), pid 4121: exit code 9 (2 actors shared the process); \
             last line on stderr: out of luck"
        );
    }
}
