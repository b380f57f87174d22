//! Assumed costs of operations that have not been measured. Orders and lanes are chosen by these numbers; the
//! correctness of a plan never depends on them.

use crate::ir::{ChannelKind, TaskIr};

/// The assumed duration of a COMPUTE whose duration is unknown, in nanoseconds.
pub(crate) const COMPUTE_NS: u64 = 1_000;

/// The longest duration that is used: 13 days. Longer durations count as this one, so sums over any graph stay far from
/// overflow.
const MOST_NS: u64 = 1 << 50;

/// Returns the assumed duration of a task's work, in nanoseconds.
pub(crate) fn work_ns(task: &TaskIr) -> u64 {
    task.duration_ns.unwrap_or(COMPUTE_NS).min(MOST_NS)
}

/// Returns the time from the end of a WRITE to the end of the READ behind it, in nanoseconds, if the reader is already
/// polling.
pub(crate) const fn hop_ns(kind: ChannelKind) -> u64 {
    match kind {
        ChannelKind::Local => 50,
        ChannelKind::Ring => 300,
        ChannelKind::Shared => 400,
        ChannelKind::Mirror => 50_000,
    }
}

/// Returns the [`hop_ns`] between two places. A place is a process and a lane.
pub(crate) fn hop_between((process, lane): (u32, u32), (other_process, other_lane): (u32, u32)) -> u64 {
    hop_ns(match (process == other_process, lane == other_lane) {
        (true, true) => ChannelKind::Local,
        (true, false) => ChannelKind::Ring,
        (false, _) => ChannelKind::Shared,
    })
}
