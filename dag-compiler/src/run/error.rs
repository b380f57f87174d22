//! What an execution may end with instead of a value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::Death;

use crate::ir::SourceLocation;
use crate::run::control::Phase;
use crate::run::report::TaskError;

/// Why an execution gave no value. Match the variant; texts may change.
#[derive(Clone)]
#[non_exhaustive]
pub enum ExecError {
    /// A user's method failed or panicked. The graph goes on with the next execution.
    Task(TaskError),
    /// An actor died and the graph with it. Its other actors can be bound into a new graph.
    ActorDied(Arc<ActorDied>),
    /// The result did not come in time. While the handle is held the execution goes on and can be waited for again, as after
    /// `wait_timeout`; `wait` and `run` drop it, which cancels the execution.
    Timeout(Arc<Timeout>),
    /// As many executions are unfinished as the graph allows; nothing was submitted.
    CapacityExceeded {
        /// Unfinished executions.
        inflight: usize,
        /// The limit, `Options::max_inflight`.
        max_inflight: usize,
    },
    /// A lane has yet to read inputs that it was given, so there is no room for another although fewer executions are unfinished than
    /// may be: the graph has fewer slots than that, or another task failed and its executions were over before. Nothing was
    /// submitted; `OnFull::Block` waits.
    InputsUnread {
        /// The lanes that are behind, the most likely first.
        behind: Arc<[Suspect]>,
    },
    /// As many finished results wait to be fetched as the graph allows; nothing was submitted.
    ResultsBuffered {
        /// Finished results that nobody has fetched.
        buffered: usize,
        /// The limit, `Options::max_buffered`.
        max_buffered: usize,
    },
    /// The execution was cancelled: its handle, or a part of it, was dropped, or it made room for a newer one.
    Cancelled {
        /// Number of the execution.
        execution: u64,
    },
    /// The graph has been torn down.
    TornDown {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// The runtime of the graph's actors was shut down.
    Shutdown {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// A `Vec` input with another number of items than the graph has edges; nothing was submitted.
    InputCount {
        /// Leaves of the graph's input.
        expected: usize,
    },
    /// `Execution::split` of outputs that are not one edge each: a `Vec`, an array or a tuple among them, or a single edge that
    /// carries a tuple.
    NotSplit {
        /// Handles that were asked for.
        parts: usize,
        /// Edges in the graph's output.
        edges: usize,
    },
    /// The result has been taken already.
    Taken {
        /// Number of the execution.
        execution: u64,
    },
    /// A channel of the graph broke; the graph has ended.
    Broken {
        /// The graph's name.
        graph: Arc<str>,
        /// Which task, and what its channel said.
        reason: Arc<str>,
    },
    /// The graph was used by the very thread that drives it: by an inline actor's method, or by the `Drop` or `Clone`
    /// of a payload. Nothing was submitted or lost.
    Reentered {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// The graph keeps no events, which was asked of it.
    TraceOff {
        /// The graph's name.
        graph: Arc<str>,
    },
    /// A broken invariant of selvedge itself.
    Internal {
        /// What to report.
        message: Arc<str>,
    },
}

selvedge_channels::debug_is_report!(ExecError);

/// The death of an actor of the graph.
#[derive(Clone, Debug)]
pub struct ActorDied {
    /// The actor's name.
    pub actor: String,
    /// Where it lived, for example `process 4121`.
    pub placement: String,
    /// The task it was last seen at, with the line where it was bound.
    pub task: Option<(String, SourceLocation)>,
    /// The execution it was last seen at.
    pub execution: u64,
    /// How it ended, and the last lines it wrote to its standard error.
    pub death: Death,
    /// The deaths of other actors of the graph that became known after this one, in order.
    pub also: Vec<ActorDied>,
}

/// A wait that ran out of time.
#[derive(Clone, Debug)]
pub struct Timeout {
    /// Number of the execution that was waited for; `None` while waiting for room to submit.
    pub execution: Option<u64>,
    /// Time since the execution was submitted; how long the wait lasted where it was for room.
    pub waited: Duration,
    /// The lanes at fault, the most likely first.
    pub suspects: Vec<Suspect>,
    /// The option that sets this time.
    pub option: &'static str,
}

/// What a lane was at when somebody ran out of patience.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// The task's label.
    pub task: String,
    /// The actor's name.
    pub actor: String,
    /// Where it lives.
    pub placement: String,
    /// The execution it is at.
    pub execution: u64,
    /// What it is doing.
    pub phase: Phase,
    /// Its process is stopped (SIGSTOP, or a debugger).
    pub stopped: bool,
    /// The line where the task was bound.
    pub bound_at: SourceLocation,
}

impl ExecError {
    /// The task's failure, if that is what it is.
    pub fn as_task(&self) -> Option<&TaskError> {
        match self {
            ExecError::Task(error) => Some(error),
            _ => None,
        }
    }

    /// The user's own error value, where the method ran in this process.
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

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecError::Task(error) => error.fmt(f),
            ExecError::ActorDied(died) => died.fmt(f),
            ExecError::Timeout(timeout) => timeout.fmt(f),
            ExecError::CapacityExceeded {
                inflight,
                max_inflight,
            } => write!(
                f,
                "{inflight} executions are unfinished and max_inflight is {max_inflight}: \
                 wait for one, or raise Options::max_inflight"
            ),
            ExecError::InputsUnread { behind } => {
                f.write_str("no room for another input before these have been read:")?;
                behind.iter().try_for_each(|suspect| write!(f, "\n  {suspect}"))?;
                f.write_str("\n  help: `OnFull::Block` waits for room; more slots (`Options::slots`) let a lane fall further behind")
            }
            ExecError::ResultsBuffered {
                buffered,
                max_buffered,
            } => write!(
                f,
                "{buffered} results have not been fetched and max_buffered is {max_buffered}: \
                 wait for or drop some, or raise Options::max_buffered"
            ),
            ExecError::Cancelled { execution } => write!(f, "execution {execution} was cancelled"),
            ExecError::TornDown { graph } => write!(f, "graph `{graph}` has been torn down"),
            ExecError::Shutdown { graph } => {
                write!(
                    f,
                    "graph `{graph}` has ended: the runtime of its actors was shut down"
                )
            }
            ExecError::InputCount { expected } => {
                write!(
                    f,
                    "the input does not have as many items as the graph has edges ({expected} in all)"
                )
            }
            ExecError::NotSplit { parts, edges } => write!(
                f,
                "the graph's output ({edges} edges) is not split into {parts} handles: each output must be one edge"
            ),
            ExecError::Taken { execution } => {
                write!(f, "the result of execution {execution} has been taken already")
            }
            ExecError::Broken { graph, reason } => write!(f, "graph `{graph}` has ended: {reason}"),
            ExecError::Reentered { graph } => write!(
                f,
                "graph `{graph}` was used by a method that it is running inline: give that actor a thread, or use the \
                 graph from outside"
            ),
            ExecError::TraceOff { graph } => write!(
                f,
                "graph `{graph}` keeps no events: compile it with `Options::trace`, some events per lane"
            ),
            ExecError::Internal { message } => {
                write!(f, "internal error of selvedge, please report: {message}")
            }
        }
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExecError::Task(error) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for ActorDied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor `{}` ({}) died: ", self.actor, self.placement)?;
        write!(f, "{}", self.death.exit)?;
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
        self.suspects
            .iter()
            .try_for_each(|suspect| write!(f, "\n  {suspect}"))?;
        write!(f, "\n  help: {} sets this time", self.option)
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match (self.stopped, self.phase) {
            (true, _) => "its process is stopped",
            (_, Phase::Computing) => "is still computing",
            (_, Phase::Reading) => "waits for an input",
            (_, Phase::Meeting) => "waits for the other ranks",
            (_, Phase::Writing) => "waits for space in an output",
            (_, Phase::Idle) => "is not running",
        };
        write!(
            f,
            "`{}` (actor `{}`, {}) {doing} in execution {}, bound at {}",
            self.task, self.actor, self.placement, self.execution, self.bound_at
        )
    }
}

/// A value that was not accepted, with the reason.
pub struct Refused<In> {
    /// The value, unchanged.
    pub value: In,
    /// Why it was refused.
    pub error: ExecError,
}

impl<In> fmt::Display for Refused<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<In> fmt::Debug for Refused<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<In> std::error::Error for Refused<In> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

// Every result carries room for it.
const _: () = assert!(size_of::<ExecError>() <= 40);
