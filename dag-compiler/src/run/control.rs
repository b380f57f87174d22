//! The control block of a running graph: the word that says whether the graph runs, the cancel table, and one progress
//! line per lane. It lies in the graph's segment, so every process of the host sees it. A graph over several hosts has one
//! on each; `hosts/` carries what changes in one to the others.
//!
//! Invariants:
//! - `CTL-1` the state moves `Running → Stopping` or `Running → Failed`, in one step, and never back.
//! - `CTL-2` a thread that fails the graph on behalf of a lane first writes the text to that lane's region, then publishes
//!   it by the step to `Failed`, which names the lane. So whoever sees `Failed` finds the text.
//! - `CTL-3` every move of the state rings every bell, so no lane sleeps through it.
//! - `CTL-4` only the lane itself writes its progress line.
//! - `CTL-5` a thread that stops the graph or cancels an execution sees that a method awaits, or the method sees the
//!   stop or the cancellation before it awaits. Each writes its own word, then reads the other's behind a sequentially
//!   consistent fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use selvedge_channels::{Berth, Doorbell, Region, Segment, SegmentError, Waiting};
use selvedge_core::{Executions, IdMap, LaneId, ProcessId, Wanted};
use serde::{Deserialize, Serialize};

use crate::run::layout::{LINE_BYTES, Layout, Span};

const RUNNING: u32 = 0;
const STOPPING: u32 = 1;
/// The bits above [`STATE_BITS`] are the number of the lane whose failure it is.
const FAILED: u32 = 2;
const STATE_BITS: u32 = 2;

/// The state of the graph: whether its lanes go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphState {
    Running,
    Stopping,
    Failed,
}

/// The control block, as one process sees it.
#[derive(Clone)]
pub(crate) struct Control {
    line: Region,
    cancels: Region,
    /// The number of cells minus one; the number of cells is a power of two.
    cancel_mask: u64,
    bells: IdMap<LaneId, Doorbell>,
    joints: IdMap<ProcessId, Doorbell>,
    /// Whether the waiters of this process sleep in berths.
    has_berths: bool,
    progress: IdMap<LaneId, Region>,
    failures: IdMap<LaneId, Region>,
}

/// The region of a span of the graph's segment.
#[allow(unsafe_code)] // the only unsafe code of this module
pub(crate) fn region(segment: &Segment, span: Span) -> Result<Region, SegmentError> {
    // SAFETY: the spans of a layout do not overlap. Each span is a channel, a group or a set of words, and only the
    // ends of that channel, the ranks of that group, or the readers and writers of those words get its region.
    unsafe { segment.region(span.offset, span.len) }
}

impl Control {
    /// The control block of a segment laid out by `layout`.
    pub(crate) fn new(segment: &Segment, layout: &Layout) -> Result<Self, SegmentError> {
        let mut bells = IdMap::new();
        let mut progress = IdMap::new();
        let mut failures = IdMap::new();
        for (lane, spans) in &layout.lanes {
            bells.insert(*lane, Doorbell::at(region(segment, spans.bell)?)?);
            progress.insert(*lane, region(segment, spans.progress)?);
            failures.insert(*lane, region(segment, spans.failure)?);
        }
        let mut joints = IdMap::new();
        for (process, span) in &layout.joints {
            joints.insert(*process, Doorbell::at(region(segment, *span)?)?);
        }
        Ok(Control {
            line: region(segment, layout.control)?,
            cancels: region(segment, layout.cancels)?,
            cancel_mask: (layout.cancels.len / 8).saturating_sub(1) as u64,
            bells,
            joints,
            has_berths: false,
            progress,
            failures,
        })
    }

    /// Has the waiters of this process sleep in berths: each lane in one that `berth` makes, and the joint in its own. Handles
    /// of other processes do not wake them there, so no other process of the host may have a part in the graph.
    pub(crate) fn set_berths(&mut self, mut berth: impl FnMut() -> Arc<dyn Berth>, joint: &Arc<dyn Berth>) {
        self.bells = std::mem::take(&mut self.bells)
            .into_iter()
            .map(|(lane, bell)| (lane, bell.with_berth(berth())))
            .collect();
        self.joints = std::mem::take(&mut self.joints)
            .into_iter()
            .map(|(process, bell)| (process, bell.with_berth(Arc::clone(joint))))
            .collect();
        self.has_berths = true;
    }

    /// How a waiter of this process waits, by the strategy of the graph. One that sleeps in a berth parks at once: the berth
    /// spins.
    pub(crate) fn waiting(&self, waiting: Waiting) -> Waiting {
        match self.has_berths {
            true => Waiting::Park,
            false => waiting,
        }
    }

    /// Gives the graph its key, a random number.
    pub(crate) fn set_key(&self) {
        use std::hash::{BuildHasher, RandomState};
        if let Ok(key) = self.line.atomic_u64(16) {
            // Relaxed: written before any other process is told of the segment.
            key.store(RandomState::new().hash_one(std::process::id()), Ordering::Relaxed);
        }
    }

    /// The key of the graph, which no other graph has.
    pub(crate) fn key(&self) -> u64 {
        let key = self.line.atomic_u64(16);
        // Relaxed: the key was written before this process was told of the segment.
        key.map_or(0, |key| key.load(Ordering::Relaxed))
    }

    /// The doorbell of a lane of this graph.
    pub(crate) fn bell(&self, lane: LaneId) -> Option<&Doorbell> {
        self.bells.get(&lane)
    }

    /// The doorbell of a process's joint with the graph's other hosts.
    pub(crate) fn joint_bell(&self, process: ProcessId) -> Option<&Doorbell> {
        self.joints.get(&process)
    }

    /// Wakes every lane and every joint of the host, whatever its doorbell says: a process that has died may have rung it and woken nobody (`BELL-4`), and
    /// a lane that has not looked at that process yet does not watch it.
    pub(crate) fn rouse_all(&self) {
        self.bells.values().for_each(Doorbell::rouse);
        self.joints.values().for_each(Doorbell::rouse);
    }

    /// The state of the graph. Acquire: pairs with the release in `mark_failed` (SYNC graph-failed).
    #[inline]
    pub(crate) fn state(&self) -> GraphState {
        match self.line.atomic_u32(0).map(|word| word.load(Ordering::Acquire)) {
            Ok(RUNNING) => GraphState::Running,
            Ok(STOPPING) => GraphState::Stopping,
            _ => GraphState::Failed,
        }
    }

    /// Whether the graph runs, for callers that do not need the reason if it does not.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        runs(&self.line)
    }

    /// Whether an async method of some lane awaits (`CTL-5`).
    pub(crate) fn is_awaiting(&self) -> bool {
        // SYNC await-wanted: pairs with the fence in `begins` (CTL-5).
        fence(Ordering::SeqCst);
        let awaiting = self.line.atomic_u64(LINE_BYTES);
        // Relaxed: the fence orders the load after the caller's own store.
        awaiting.is_ok_and(|awaiting| awaiting.load(Ordering::Relaxed) > 0)
    }

    /// The check whether a lane's async methods are still wanted.
    pub(crate) fn wanted(&self, lane: LaneId) -> Option<LaneWants> {
        let progress = self.progress.get(&lane).cloned()?;
        Some(LaneWants {
            line: self.line.clone(),
            cancels: self.cancels.clone(),
            cancel_mask: self.cancel_mask,
            progress,
        })
    }

    /// Asks the lanes to end their programs (`CTL-1`, `CTL-3`).
    pub(crate) fn stop(&self) {
        if let Ok(word) = self.line.atomic_u32(0) {
            // No data is published with this word; AcqRel only keeps the transitions in one order (CTL-1).
            let _ = word.compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire);
        }
        self.rouse_all();
    }

    /// Marks the graph as failed by a lane, for the reason in `text`; the first failure counts (`CTL-2`).
    pub(crate) fn fail(&self, lane: LaneId, text: &str) {
        if self.is_running()
            && let Some(failure) = self.failures.get(&lane)
        {
            write_text(failure, text);
        }
        self.mark_failed(lane);
    }

    /// Marks the graph as failed by a lane, without a text: the caller has kept the reason elsewhere.
    pub(crate) fn mark_failed(&self, lane: LaneId) {
        if let Ok(word) = self.line.atomic_u32(0) {
            // SYNC graph-failed: the release publishes the lane's text to `state()` and `failure()`. Acquire: as in `stop`.
            let failed = lane.0 << STATE_BITS | FAILED;
            let _ = word.compare_exchange(RUNNING, failed, Ordering::AcqRel, Ordering::Acquire);
        }
        self.rouse_all();
    }

    /// The lane and the text of the failure; `None` unless the state is `Failed` and the lane has left a text.
    pub(crate) fn failure(&self) -> Option<(LaneId, String)> {
        // SYNC graph-failed: pairs with the release in `mark_failed`.
        let word = self.line.atomic_u32(0).ok()?.load(Ordering::Acquire);
        let state = word & ((1 << STATE_BITS) - 1);
        let lane = (state == FAILED).then_some(LaneId(word >> STATE_BITS))?;
        Some((lane, read_text(self.failures.get(&lane)?)?))
    }

    /// Marks an execution as cancelled: its tasks that have not started will not start.
    pub(crate) fn cancel(&self, execution: u64) {
        if let Ok(cell) = self.cancels.atomic_u64(cancel_cell(self.cancel_mask, execution)) {
            // Relaxed: a hint that carries no data; a lane that reads it late merely computes an unwanted result.
            cell.store(execution + 1, Ordering::Relaxed);
        }
    }

    /// The cancel cell of an execution, for callers that check [`is_cancelled`](Self::is_cancelled) several times. Not
    /// inlined, so that the cell is looked up once.
    #[inline(never)]
    pub(crate) fn cancels(&self, execution: u64) -> Cancels<'_> {
        Cancels {
            cell: self
                .cancels
                .atomic_u64(cancel_cell(self.cancel_mask, execution))
                .ok(),
            execution,
        }
    }

    /// Whether an execution has been cancelled. Each of the `max_inflight` executions that may be unfinished has its
    /// own cell. A finished execution that a lane has yet to read may have lost its cell to a later one; then the lane
    /// computes an unwanted result.
    #[inline]
    pub(crate) fn is_cancelled(&self, execution: u64) -> bool {
        self.cancels(execution).is_cancelled()
    }

    /// The line to which a lane writes its progress.
    pub(crate) fn progress_line(&self, lane: LaneId) -> Option<ProgressLine> {
        self.progress.get(&lane).cloned().map(ProgressLine)
    }

    /// The progress of every lane of the host.
    pub(crate) fn all_progress(&self) -> Vec<(LaneId, Progress)> {
        let lanes = self.progress.iter();
        lanes
            .filter_map(|(lane, line)| Some((*lane, Progress::read(line)?)))
            .collect()
    }

    /// The progress of a lane when it was last written.
    pub(crate) fn progress(&self, lane: LaneId) -> Option<Progress> {
        Progress::read(self.progress.get(&lane)?)
    }
}

/// Writes the text of a failure: its length, then its bytes, of which those beyond the region are cut off.
fn write_text(region: &Region, text: &str) {
    let room = (region.len_bytes() / 8).saturating_sub(1) * 8;
    let bytes: Vec<u8> = text.bytes().take(room).collect();
    for (index, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0u8; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        if let Ok(cell) = region.atomic_u64((index + 1) * 8) {
            // Relaxed: the release in `mark_failed` publishes the text (SYNC graph-failed).
            cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }
    if let Ok(cell) = region.atomic_u64(0) {
        // Relaxed: the release in `mark_failed` publishes the length (SYNC graph-failed).
        cell.store(bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Reads the text of a failure, whatever another process has written there; `None` if there is none.
fn read_text(region: &Region) -> Option<String> {
    // Relaxed: the acquire in `failure` orders the loads of the text.
    let word = |index: usize| Some(region.atomic_u64(index * 8).ok()?.load(Ordering::Relaxed));
    let room = region.len_bytes().saturating_sub(8);
    let len = usize::try_from(word(0)?).map_or(room, |len| len.min(room));
    let words: Option<Vec<u64>> = (1..=len.div_ceil(8)).map(word).collect();
    let mut bytes: Vec<u8> = words?.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    (len > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The offset of an execution's cell in the cancel table.
#[inline]
fn cancel_cell(mask: u64, execution: u64) -> usize {
    (execution & mask) as usize * 8
}

/// Whether the graph runs. Acquire: pairs with the release in `mark_failed` (SYNC graph-failed).
#[inline]
fn runs(line: &Region) -> bool {
    line.atomic_u32(0)
        .is_ok_and(|word| word.load(Ordering::Acquire) == RUNNING)
}

/// The check whether the async methods of a lane are still wanted: the graph runs, and the execution that the lane is
/// at is not cancelled.
pub(crate) struct LaneWants {
    line: Region,
    cancels: Region,
    cancel_mask: u64,
    progress: Region,
}

impl Wanted for LaneWants {
    fn begins(&self) {
        if let Ok(awaiting) = self.line.atomic_u64(LINE_BYTES) {
            // Relaxed: the fence orders the count before the checks that follow.
            awaiting.fetch_add(1, Ordering::Relaxed);
        }
        // SYNC await-wanted: pairs with the fence in `is_awaiting` (CTL-5).
        fence(Ordering::SeqCst);
    }

    fn is_wanted(&self) -> bool {
        !self.is_cancelled(self.current())
    }

    fn ends(&self) {
        if let Ok(awaiting) = self.line.atomic_u64(LINE_BYTES) {
            // Relaxed: a count that is read late costs one needless interruption.
            awaiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Executions for LaneWants {
    fn current(&self) -> u64 {
        // Relaxed: the lane's own thread asks, and it wrote the number itself.
        let execution = self.progress.atomic_u64(0).map(|at| at.load(Ordering::Relaxed));
        execution.unwrap_or(0)
    }

    fn is_cancelled(&self, execution: u64) -> bool {
        let cell = self
            .cancels
            .atomic_u64(cancel_cell(self.cancel_mask, execution))
            .ok();
        let cancels = Cancels { cell, execution };
        cancels.is_cancelled() || !runs(&self.line)
    }
}

/// The cancel cell of one execution, looked up once.
pub(crate) struct Cancels<'a> {
    cell: Option<&'a AtomicU64>,
    execution: u64,
}

impl Cancels<'_> {
    /// Whether the execution has been cancelled, as [`Control::is_cancelled`] says.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Relaxed: a hint that carries no data, as in `cancel`.
        self.cell
            .is_some_and(|cell| cell.load(Ordering::Relaxed) == self.execution + 1)
    }
}

/// The activity of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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
    /// Not known: the lane's host, which is not the driver's, has not answered in time.
    Silent,
}

/// A snapshot of a lane's progress line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
            Phase::Idle | Phase::Silent => 0,
        };
        if let Some(word) = self.0 {
            // Relaxed: the line is only diagnostic.
            word.store(u64::from(task) << 32 | code, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod control_tests;
