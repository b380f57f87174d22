//! The errors of a lane, each with the task at which it was found.

use std::time::Duration;

use selvedge_channels::ChannelError;
use selvedge_collectives::CommError;

use crate::ir::TaskId;
use crate::run::table::NoSuchItem;

/// The reasons why a lane, and with it the graph, cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Group(#[from] CommError),
    #[error(transparent)]
    Bug(#[from] NoSuchItem),
}

/// The time limit for waiting for the report of a death that may explain an error. The report takes a moment to reach
/// the process that runs the graph.
pub(crate) const NEWS_TIMEOUT: Duration = Duration::from_secs(3);

impl LaneError {
    /// Whether the error may be the first sign of a process's death.
    pub(crate) fn may_be_a_death(&self) -> bool {
        match self {
            LaneError::Channel(ChannelError::Segment(error))
            | LaneError::Group(CommError::Segment(error)) => error.may_be_a_death(),
            LaneError::Channel(ChannelError::Closed) => true,
            _ => false,
        }
    }
}

/// A [`LaneError`] with the task at which it was found. Boxed, because every step returns it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) task: TaskId,
    pub(crate) error: LaneError,
}

impl Broken {
    #[cold]
    pub(crate) fn at(task: TaskId, error: impl Into<LaneError>) -> Box<Self> {
        let error = error.into();
        Box::new(Broken { task, error })
    }
}

/// An error that belongs to no task.
impl From<LaneError> for Box<Broken> {
    #[cold]
    fn from(error: LaneError) -> Self {
        Broken::at(TaskId(u32::MAX), error)
    }
}

impl From<NoSuchItem> for Box<Broken> {
    #[cold]
    fn from(error: NoSuchItem) -> Self {
        LaneError::from(error).into()
    }
}
