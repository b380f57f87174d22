//! What a run has found.

use std::fmt;
use std::time::Duration;

use selvedge_objects::refs::RefStats;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects that were created.
    pub created: u64,
    /// Objects that were freed.
    pub freed: u64,
    /// Uses of an object after it was freed.
    pub freed_early: u64,
    /// Entries of any table of a living process at the end.
    pub left_over: usize,
    /// Calls and fetches that never ended.
    pub waits_left: usize,
    /// Shutdowns that are over, with nothing left.
    pub shutdowns: u64,
    /// References that were passed to another process.
    pub passed: u64,
    /// Frames with nothing but messages about references, repetitions included.
    pub reference_frames: u64,
    /// All frames.
    pub frames: u64,
    /// The virtual time at the end.
    pub time: Duration,
    /// The hash of all events, in order.
    pub hash: u64,
}

impl Report {
    /// Whether nothing was freed early, nothing is left over, and every wait has ended.
    pub fn is_clean(&self) -> bool {
        (self.freed_early, self.left_over, self.waits_left) == (0, 0, 0)
    }

    /// Counts what a process has not got rid of.
    pub fn count_left(&mut self, stats: &RefStats) {
        self.left_over += stats.owned + stats.held + stats.children + stats.questions + stats.waiting;
        self.waits_left += stats.calls;
    }

    /// Frames about references for each reference that was created or passed.
    pub fn frames_per_reference(&self) -> f64 {
        self.reference_frames as f64 / (self.created + self.passed).max(1) as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} created, {} freed, {} freed early, {} left over, {} waits left, {} passed, {:.2} reference frames for each, \
             {} frames, {:.1} s, hash {:016x}",
            self.created,
            self.freed,
            self.freed_early,
            self.left_over,
            self.waits_left,
            self.passed,
            self.frames_per_reference(),
            self.frames,
            self.time.as_secs_f64(),
            self.hash
        )
    }
}
