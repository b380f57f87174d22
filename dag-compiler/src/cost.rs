//! What an operation is taken to cost where nothing has been measured. Orders and lanes are chosen by these numbers;
//! whether a plan is right never depends on them.

use crate::ir::{ChannelKind, TaskIr};

/// A COMPUTE of unknown duration, in nanoseconds.
pub(crate) const COMPUTE_NS: u64 = 1_000;

/// Longer than that, twelve days, is taken for that: sums over any graph stay far from overflow.
const MOST_NS: u64 = 1 << 50;

/// How long a task's work is taken to last.
pub(crate) fn work_ns(task: &TaskIr) -> u64 {
    task.duration_ns.unwrap_or(COMPUTE_NS).min(MOST_NS)
}

/// From the end of a WRITE to the end of the READ behind it, where the reader looks already.
pub(crate) const fn hop_ns(kind: ChannelKind) -> u64 {
    match kind {
        ChannelKind::Local => 50,
        ChannelKind::Ring => 300,
        ChannelKind::Shared => 400,
    }
}

/// The same between two places, each a process and a lane.
pub(crate) fn hop_between((process, lane): (u32, u32), (other_process, other_lane): (u32, u32)) -> u64 {
    hop_ns(match (process == other_process, lane == other_lane) {
        (true, true) => ChannelKind::Local,
        (true, false) => ChannelKind::Ring,
        (false, _) => ChannelKind::Shared,
    })
}
