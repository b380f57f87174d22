//! Errors: the ends of an execution that gave no value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::Death;

use crate::ir::SourceLocation;
use crate::run::control::Phase;
use crate::run::report::TaskError;

/// The reason why an execution gave no value. Match the variant; texts may change.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// A user-defined method failed or panicked. The graph goes on with the next execution.
    #[error(transparent)]
    Task(TaskError),
    /// An actor died, and the graph with it. The graph's other actors can be bound into a new graph.
    #[error("{0}")]
    ActorDied(Arc<ActorDied>),
    /// The result did not arrive in time. While the handle is held, the execution goes on and can be waited for again,
    /// as after `wait_timeout`; `wait` and `run` drop the handle, which cancels the execution.
    #[error("{0}")]
    Timeout(Arc<Timeout>),
    /// The number of unfinished executions has reached the limit of the graph; nothing was submitted.
    #[error(
        "{inflight} executions are unfinished and max_inflight is {max_inflight}: wait for one, or raise Options::max_inflight"
    )]
    CapacityExceeded {
        /// The number of unfinished executions.
        inflight: usize,
        /// The limit, `Options::max_inflight`.
        max_inflight: usize,
    },
    /// A lane has yet to read earlier inputs, so there is no room for another input, although the number of unfinished
    /// executions is below the limit. Either the graph has fewer slots than that limit, or another task failed and
    /// ended the executions of those inputs early. Nothing was submitted; `OnFull::Block` waits.
    #[error(
        "no room for another input before these have been read:{}\n  help: `OnFull::Block` waits for room; more slots (`Options::slots`) let a lane fall further behind",
        lines(behind)
    )]
    InputsUnread {
        /// The lanes that are behind, the most likely first.
        behind: Arc<[Suspect]>,
    },
    /// The number of finished, unfetched results has reached the limit of the graph; nothing was submitted.
    #[error(
        "{buffered} results have not been fetched and max_buffered is {max_buffered}: wait for or drop some, or raise Options::max_buffered"
    )]
    ResultsBuffered {
        /// The number of finished, unfetched results.
        buffered: usize,
        /// The limit, `Options::max_buffered`.
        max_buffered: usize,
    },
    /// The execution was cancelled: its handle, or a part of the handle, was dropped, or the execution made room for a
    /// newer one.
    #[error("execution {execution} was cancelled")]
    Cancelled {
        /// Number of the execution.
        execution: u64,
    },
    /// The graph has been torn down.
    #[error("graph `{graph}` has been torn down")]
    TornDown {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// The runtime of the graph's actors was shut down.
    #[error("graph `{graph}` has ended: the runtime of its actors was shut down")]
    Shutdown {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// A `Vec` input has another number of items than the graph has edges; nothing was submitted.
    #[error(
        "the input does not have as many items as the graph has edges ({expected} in all): Options::inputs sets the number of each Vec"
    )]
    InputCount {
        /// The number of leaves of the graph's input.
        expected: usize,
    },
    /// `Execution::split` was called for outputs that are not one edge each: a `Vec`, an array or a tuple is among
    /// them, or a single edge carries a tuple.
    #[error(
        "the graph's output ({edges} edges) is not split into {parts} handles: each output must be one edge"
    )]
    NotSplit {
        /// The number of handles that were asked for.
        parts: usize,
        /// The number of edges in the graph's output.
        edges: usize,
    },
    /// The result has been taken already.
    #[error("the result of execution {execution} has been taken already")]
    Taken {
        /// Number of the execution.
        execution: u64,
    },
    /// A channel of the graph broke; the graph has ended.
    #[error("graph `{graph}` has ended: {reason}")]
    Broken {
        /// The graph's name.
        graph: Arc<str>,
        /// The task at fault, and the error of its channel.
        reason: Arc<str>,
    },
    /// The thread that drives the graph used the graph again: from an inline actor's method, or from the `Drop` or
    /// `Clone` of a payload. Nothing was submitted or lost.
    #[error(
        "graph `{graph}` was used by a method that it is running inline: give that actor a thread, or use the graph from outside"
    )]
    Reentered {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// The call needs events, and the graph keeps none.
    #[error("graph `{graph}` keeps no events: compile it with `Options::trace`, some events per lane")]
    TraceOff {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// A broken invariant of selvedge itself.
    #[error("internal error of selvedge, please report: {message}")]
    Internal {
        /// The text to report.
        message: Arc<str>,
    },
}

selvedge_channels::debug_is_report!(ExecError);

/// The death of an actor of the graph.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ActorDied {
    /// The actor's name.
    pub actor: String,
    /// The placement of the actor, for example `process with pid 4121`.
    pub placement: String,
    /// The task at which the actor was last seen, with the line where the task was bound.
    pub task: Option<(String, SourceLocation)>,
    /// The execution at which the actor was last seen.
    pub execution: u64,
    /// The exit of the actor, and the last lines that it wrote to its standard error.
    pub death: Death,
    /// The deaths of other actors of the graph that became known after this one, in order.
    pub also: Vec<ActorDied>,
}

/// A wait whose time limit has passed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timeout {
    /// The number of the execution that was waited for; `None` for a wait for room to submit.
    pub execution: Option<u64>,
    /// The time since the execution was submitted; for a wait for room, the duration of the wait.
    pub waited: Duration,
    /// The lanes at fault, the most likely first.
    pub suspects: Vec<Suspect>,
    /// The option that sets the time limit.
    pub option: &'static str,
    /// Whether the caller was a method on a thread of the graph, which runs no other task of the graph meanwhile.
    pub on_own_thread: bool,
}

/// A lane at fault, and its activity when it was looked up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suspect {
    /// The task's label.
    pub task: String,
    /// The actor's name.
    pub actor: String,
    /// The placement of the actor.
    pub placement: String,
    /// The execution that the lane is at.
    pub execution: u64,
    /// The activity of the lane.
    pub phase: Phase,
    /// True if the lane's process is stopped (SIGSTOP, or a debugger).
    pub stopped: bool,
    /// The line where the task was bound.
    pub bound_at: SourceLocation,
}

impl ExecError {
    /// The failure of a task, if this error is one.
    pub fn as_task(&self) -> Option<&TaskError> {
        match self {
            ExecError::Task(error) => Some(error),
            _ => None,
        }
    }

    /// The user's own error, if a method returned one of type `E`; see [`TaskError::downcast_ref`].
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.as_task()?.downcast_ref::<E>()
    }

    /// Whether the graph can go on executing.
    pub fn graph_goes_on(&self) -> bool {
        !matches!(
            self,
            ExecError::ActorDied(_)
                | ExecError::TornDown { .. }
                | ExecError::Shutdown { .. }
                | ExecError::Broken { .. }
        )
    }
}

/// The suspects, each on a line of its own.
fn lines(suspects: &[Suspect]) -> String {
    suspects.iter().map(|suspect| format!("\n  {suspect}")).collect()
}

impl fmt::Display for ActorDied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor `{}` ({}) died", self.actor, self.placement)?;
        if let Some(worker) = &self.death.worker {
            write!(f, " with {worker}")?;
        }
        write!(f, ": {}", self.death.exit)?;
        if let Some((task, bound_at)) = &self.task {
            write!(
                f,
                "\n  last seen at `{task}` in execution {}\n  --> bound at {bound_at}",
                self.execution
            )?;
        }
        if !self.death.stderr_tail.is_empty() {
            write!(f, "\n  its last words:")?;
            self.death
                .stderr_tail
                .iter()
                .try_for_each(|line| write!(f, "\n    {line}"))?;
        }
        self.also.iter().try_for_each(|also| write!(f, "\nalso: {also}"))
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.execution {
            Some(execution) => write!(
                f,
                "execution {execution} has not finished after {:?}",
                self.waited
            )?,
            None => write!(f, "no room to submit after {:?}", self.waited)?,
        }
        f.write_str(&lines(&self.suspects))?;
        if self.on_own_thread {
            f.write_str("\n  help: the caller is a method on a thread of this graph, which may wait for it: use the graph from outside")?;
        }
        write!(f, "\n  help: {} sets this time", self.option)
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match (self.stopped, self.phase) {
            (true, _) => "is in a process that is stopped,",
            (_, Phase::Computing) => "is still computing",
            (_, Phase::Reading) => "waits for an input",
            (_, Phase::Meeting) => "waits for the other ranks",
            (_, Phase::Writing) => "waits for space in an output",
            (_, Phase::Idle) => "is not running",
            (_, Phase::Silent) => "is on a host that does not answer,",
        };
        write!(
            f,
            "`{}` (actor `{}`, {}) {doing} in execution {}, bound at {}",
            self.task, self.actor, self.placement, self.execution, self.bound_at
        )
    }
}

/// A value that was not accepted, with the reason.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Refused<In> {
    /// The value, unchanged.
    pub value: In,
    /// The reason why it was refused.
    pub error: ExecError,
}

impl<In> fmt::Debug for Refused<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

// Every result has room for this error, so the error is kept small.
const _: () = assert!(size_of::<ExecError>() <= 40);
