//! The event ring: records of one cache line each, one ring per lane, where the newest record overwrites the oldest
//! (TASK-15).
//!
//! Off by default (`Options::trace`); then it costs a test of a pointer in a few places. Records store ticks of
//! `clock`; the events read from them are in nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
//!
//! An operation begins where the previous one on its lane ended, so the clock is read once per operation: a READ lasts
//! from there until its value has arrived. For a task that runs in one go the clock is read twice; in a stretch of
//! hops, it is read once for every hop but the first.
//!
//! A task that runs in one go has one record for all its operations. The record is *open* while the task runs: a thread
//! that has the result finds the record, and no thread waits for the clock, which is read again after the result is
//! published. So the COMPUTE includes the hand-over of the result: a copy into shared memory, or the wake-up of a
//! sleeping reader. If the lane spun for an input, the clock was read at the last poll before the input arrived, and
//! the COMPUTE begins at that reading, at most some hundred nanoseconds too early.

pub(crate) mod read;
pub(crate) mod recorder;

use serde::{Deserialize, Serialize};

pub(crate) use self::recorder::Recorder;
use crate::ir::{BindIndex, TaskId};

/// One operation of one execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The name of the actor.
    pub actor: String,
    /// The name of the method.
    pub method: String,
    /// The label of the task.
    pub task: String,
    /// The index of the task in [`GraphIr::tasks`](crate::ir::GraphIr::tasks).
    pub task_id: TaskId,
    /// The position of the task among all binds of the actor in this graph.
    pub bind_index: BindIndex,
    /// `READ`, `COMPUTE`, `COLLECTIVE` or `WRITE`.
    pub operation: String,
    /// The number of the execution.
    pub execution: u64,
    /// Start, in nanoseconds of the monotonic clock. A COMPUTE whose input the lane spun for may have begun some
    /// hundred nanoseconds later.
    pub start_ns: u64,
    /// End, in nanoseconds of the monotonic clock; for an operation in flight, the time when the trace was taken. A
    /// COMPUTE whose result is sent at once ends when the result is published, so its reader may have begun before.
    pub end_ns: u64,
    /// True if the operation has not ended, as far as is known. An open operation of a finished execution counts as
    /// ended when the trace is taken, although a task that a fault or a cancellation has left behind may go on.
    #[serde(default)]
    pub under_way: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
