//! Progress lines: where each lane is, for suspects and reports.

use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_channels::Region;

/// The activity of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for an input of the task.
    Reading,
    /// Inside a user-defined method.
    Computing,
    /// Waiting for the other ranks of a collective.
    Meeting,
    /// Waiting for space in an output of the task.
    Writing,
    /// The lane's program has ended, or has not begun.
    Idle,
}

/// A snapshot of a lane's progress line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) execution: u64,
    /// The index of the task; while the lane is idle, no index of the plan.
    pub(crate) task: u32,
    pub(crate) phase: Phase,
}

impl Progress {
    /// The progress in `line` when it was last written.
    pub(super) fn read(line: &Region) -> Option<Self> {
        // Relaxed, both: the line is only diagnostic, and the two words may be of different moments.
        let execution = line.atomic_u64(0).ok()?.load(Ordering::Relaxed);
        // Relaxed: as above.
        let word = line.atomic_u64(8).ok()?.load(Ordering::Relaxed);
        let phase = match word & 0xff {
            1 => Phase::Reading,
            2 => Phase::Computing,
            3 => Phase::Writing,
            4 => Phase::Meeting,
            _ => Phase::Idle,
        };
        // A line that was never written names no task.
        let task = if phase == Phase::Idle {
            u32::MAX
        } else {
            (word >> 32) as u32
        };
        Some(Progress {
            execution,
            task,
            phase,
        })
    }
}

/// The writer's side of a progress line (`CTL-4`). The line is only diagnostic, hence Relaxed.
#[derive(Clone)]
pub(crate) struct ProgressLine(pub(super) Region);

impl ProgressLine {
    /// Writes the number of the execution; returns the place for the lane's progress in it.
    #[inline(never)]
    pub(crate) fn at(&self, execution: u64) -> ProgressAt<'_> {
        let words = self.0.atomics::<2>(0).ok();
        ProgressAt(words.map(|[first, second]| {
            // Relaxed: the line is only diagnostic.
            first.store(execution, Ordering::Relaxed);
            second
        }))
    }
}

/// The writer's side of a progress line within one execution.
pub(crate) struct ProgressAt<'a>(Option<&'a AtomicU64>);

impl ProgressAt<'_> {
    #[inline]
    pub(crate) fn set(&self, task: u32, phase: Phase) {
        let code = match phase {
            Phase::Reading => 1,
            Phase::Computing => 2,
            Phase::Writing => 3,
            Phase::Meeting => 4,
            Phase::Idle => 0,
        };
        if let Some(word) = self.0 {
            // Relaxed: the line is only diagnostic.
            word.store(u64::from(task) << 32 | code, Ordering::Relaxed);
        }
    }
}
