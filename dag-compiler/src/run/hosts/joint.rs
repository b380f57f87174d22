//! A joint: the part of a graph in one process that joins its host to the graph's other hosts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::{Doorbell, OnBehalf, Segment, SegmentId, Summons};
use selvedge_core::{Body, Correspondence, Correspondent, HostId, IdMap, LaneId, LentMemory, ProcessId};

use super::asking::Asking;
use super::berth::JointBerth;
use super::incoming::{Flushed, Incoming, IncomingError};
use super::near::NearEnds;
use super::outgoing::Outgoing;
use super::shares::Shares;
use super::word::{MessageKind, Word};
use crate::ir::{ChannelId, Plan};
use crate::run::control::{Control, GraphState};
use crate::run::lane::NEWS_TIMEOUT;

/// The length in bytes of the longest message that is copied to its mirror on the thread that reads the link; the joint's thread copies
/// longer ones. Waking it costs as much as to copy some 100 KiB.
const COPIED_AT_ONCE_MAX: usize = 128 << 10;

/// The driver's reaction to a failure on another host.
type OnFailure = Box<dyn Fn(LaneId, String) + Send + Sync>;

/// The parts of which a joint is made.
pub(crate) struct JointParts {
    pub(crate) process: ProcessId,
    pub(crate) correspondence: Correspondence,
    pub(crate) control: Control,
    pub(crate) bell: Doorbell,
    pub(crate) incoming: IdMap<ChannelId, Incoming>,
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) shares: Arc<Shares>,
    pub(crate) berth: Option<Arc<JointBerth>>,
    /// The memory that this process has made for its host.
    pub(crate) memory: Option<Segment>,
}

/// A joint. Letters step it on the thread that reads their link; the joint's own thread does what may have to wait.
pub(crate) struct Joint {
    pub(super) process: ProcessId,
    correspondence: Correspondence,
    pub(super) control: Control,
    pub(super) bell: Doorbell,
    incoming: IdMap<ChannelId, Incoming>,
    pub(super) shares: Arc<Shares>,
    pub(super) near: OnBehalf<NearEnds>,
    /// The berth of the joint's thread, if whoever rings sends short messages.
    pub(super) berth: Option<Arc<JointBerth>>,
    /// The numbers of messages that other hosts have taken, by mirror.
    taken: IdMap<ChannelId, (ProcessId, Arc<AtomicU64>)>,
    /// The edges that this process has with another one, in words.
    edges: IdMap<ProcessId, String>,
    /// Set if a mirror has messages that wait for a slot (`BERTH-3`).
    pub(super) behind: Summons,
    pub(super) has_begun: AtomicBool,
    /// Whether the joint has told of a failure, after which it only waits for the end.
    pub(super) has_failed: AtomicBool,
    /// Whether there is something for `settle_news`.
    pub(super) has_news: AtomicBool,
    /// A failure that has no better explanation yet, and the time at which it counts.
    pub(super) trouble: Mutex<Option<(Instant, String)>>,
    /// The driver's only: the first failure that it was told, until its thread has it.
    pub(super) told: Mutex<Option<(LaneId, String)>>,
    /// Whether the driver has ended the graph: it has told the other hosts, or has told this one.
    pub(super) has_stopped: AtomicBool,
    memories: Mutex<IdMap<u32, SegmentId>>,
    /// The other processes that have a joint, each with its host.
    others: Vec<(HostId, ProcessId)>,
    /// Whether the joint's process tells the driver of the failures on its host (`JOINT-4`).
    pub(super) is_steward: bool,
    pub(super) asking: Asking,
    pub(super) on_failure: OnceLock<OnFailure>,
    _memory: Option<Segment>,
}

impl Joint {
    /// Makes the joint of a process, which hears letters from now on.
    pub(crate) fn new(plan: &Plan, parts: JointParts) -> Arc<Self> {
        let process = parts.process;
        let host = plan.host_of(process).unwrap_or(HostId::DRIVER);
        let others = plan.joints().into_iter();
        let outgoing = parts.outgoing.iter();
        let taken = outgoing.map(|it| (it.plan().mirror, (it.plan().to, it.taken())));
        let taken = taken.collect();
        let joint = Arc::new(Joint {
            process,
            correspondence: parts.correspondence,
            control: parts.control,
            bell: parts.bell,
            incoming: parts.incoming,
            shares: parts.shares,
            berth: parts.berth,
            near: OnBehalf::new(NearEnds::new(parts.outgoing)),
            taken,
            edges: edges(plan, process),
            behind: Summons::default(),
            has_begun: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            trouble: Mutex::new(None),
            told: Mutex::new(None),
            has_stopped: AtomicBool::new(false),
            memories: Mutex::default(),
            others: others.filter(|(_, other)| *other != process).collect(),
            is_steward: host != HostId::DRIVER && plan.steward(host) == process,
            asking: Asking::default(),
            on_failure: OnceLock::new(),
            _memory: parts.memory,
        });
        if let Some(berth) = &joint.berth {
            berth.belongs_to(&joint);
        }
        let hears = Arc::downgrade(&joint);
        joint.correspondence.hear(hears);
        joint
    }

    /// The number of the correspondence, by which other processes join it.
    pub(crate) fn id(&self) -> selvedge_core::CorrespondenceId {
        self.correspondence.id()
    }

    /// Tells the driver what memory this process has made.
    pub(crate) fn show_memory(&self, memory: SegmentId) {
        self.send_or_fail(ProcessId::DRIVER, &Word::Memory(memory));
    }

    /// The memory of a host, if its steward has told of it.
    pub(crate) fn memory_of(&self, host: HostId) -> Option<SegmentId> {
        self.memories.lock().get(&host.0).cloned()
    }

    /// Sets what the driver does about a failure on another host, on the joint's thread.
    pub(crate) fn on_failure(&self, act: OnFailure) {
        // There is one caller.
        let _ = self.on_failure.set(act);
        self.note_news();
    }

    /// The driver's: all processes have loaded the graph (`JOINT-3`).
    pub(crate) fn begin(&self) {
        self.begins();
        for (_, process) in &self.others {
            self.send_or_fail(*process, &Word::Begin);
        }
    }

    /// The driver's: cancels an execution on the other hosts.
    pub(crate) fn cancel(&self, execution: u64) {
        for process in self.far() {
            self.send_or_fail(process, &Word::Cancel(execution));
        }
    }

    /// The driver's: ends the graph on the other hosts. A second call changes nothing.
    pub(crate) fn stop(&self) {
        // AcqRel: no data is published; of several callers one sends.
        if !self.has_stopped.swap(true, Ordering::AcqRel) {
            for process in self.far() {
                // A process that cannot be told is dead, or is cut off.
                let _ = self.send(process, &Word::Stop, Body::default());
            }
        }
    }

    /// The processes of other hosts, which do not see this host's control block.
    fn far(&self) -> impl Iterator<Item = ProcessId> {
        let far = self.others.iter().filter(|(host, _)| *host != HostId::DRIVER);
        far.map(|(_, process)| *process)
    }

    pub(super) fn send(&self, to: ProcessId, word: &Word, body: Body) -> Result<(), String> {
        self.correspondence.send(to, word.stream(), word, body)
    }

    fn send_or_fail(&self, to: ProcessId, word: &Word) {
        if let Err(why) = self.send(to, word, Body::default()) {
            self.trouble(format!("{} cannot be told of the graph: {why}", self.other(to)));
        }
    }

    fn begins(&self) {
        // SYNC joint-begun: pairs with the load in `turn`.
        self.has_begun.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Names another process and the edges to it.
    fn other(&self, process: ProcessId) -> String {
        let name = self.correspondence.name_of(process);
        let name = name.map_or_else(|| process.to_string(), |name| name.to_string());
        match self.edges.get(&process) {
            Some(edges) => format!("{name} with its part in {edges}"),
            None => name,
        }
    }

    /// Notes what went wrong. It counts unless the graph ends for a better reason soon, which is the death of a process in most cases.
    pub(super) fn trouble(&self, text: String) {
        let mut trouble = self.trouble.lock();
        if trouble.is_some() {
            return;
        }
        *trouble = Some((Instant::now() + NEWS_TIMEOUT, text));
        drop(trouble);
        self.note_news();
    }

    fn note_news(&self) {
        // SYNC joint-news: pairs with the load in `turn`.
        self.has_news.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Tells the driver that a lane, or this joint, cannot go on; the first failure counts.
    pub(super) fn fail(&self, lane: LaneId, text: String) {
        // AcqRel: no data is published; of several callers one tells.
        if self.has_failed.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.process == ProcessId::DRIVER {
            return self.is_told(lane, text);
        }
        // Without the driver this process ends.
        let _ = self.send(ProcessId::DRIVER, &Word::Failed { lane, text }, Body::default());
    }

    fn is_told(&self, lane: LaneId, text: String) {
        self.told.lock().get_or_insert((lane, text));
        self.note_news();
    }

    /// Fails the graph because a shuttle cannot go on.
    pub(super) fn shuttle_failed(&self, other: ProcessId, error: &dyn std::error::Error) {
        self.fail(
            LaneId::DRIVER,
            format!("an edge to {}: {error}", self.other(other)),
        );
    }

    /// Notes that a shuttle cannot go on, most probably because the graph ends.
    pub(super) fn shuttle_is_in_trouble(&self, other: ProcessId, error: &dyn std::error::Error) {
        if self.control.is_running() {
            self.trouble(format!("an edge to {}: {error}", self.other(other)));
        }
    }

    /// Writes messages that wait to their mirrors; returns whether any was written.
    pub(super) fn catch_up(&self) -> bool {
        self.behind.serve(|| self.flush_all())
    }

    fn flush_all(&self) -> bool {
        let mut moved = false;
        for (mirror, incoming) in &self.incoming {
            moved |= self.flushed(*mirror, incoming, incoming.flush()).moved;
        }
        moved
    }

    /// Follows an attempt to write to a mirror.
    fn flushed(
        &self,
        mirror: ChannelId,
        incoming: &Incoming,
        flushed: Result<Flushed, IncomingError>,
    ) -> Flushed {
        let flushed = flushed.unwrap_or_else(|error| {
            self.mirror_failed(incoming.from(), &error);
            Flushed::default()
        });
        if flushed.waits {
            self.behind.set();
        }
        if let Some(messages) = flushed.taken {
            self.send_or_fail(incoming.from(), &Word::Taken { mirror, messages });
        }
        flushed
    }

    fn mirror_failed(&self, other: ProcessId, error: &IncomingError) {
        // The mirror of a graph that ends may be closed.
        if self.control.is_running() {
            self.shuttle_failed(other, error);
        }
    }

    fn message(&self, from: ProcessId, (mirror, number, kind): (ChannelId, u64, MessageKind), body: Bytes) {
        let Some(incoming) = self.incoming.get(&mirror) else {
            return self.fail(
                LaneId::DRIVER,
                format!("{from} has sent to no edge of this process"),
            );
        };
        let is_short = body.len() <= COPIED_AT_ONCE_MAX;
        let is_placed = match incoming.take(from, number, kind, body) {
            Ok(is_placed) => is_placed,
            Err(error) => return self.mirror_failed(from, &error),
        };
        let waits = match is_short || is_placed {
            true => self.flushed(mirror, incoming, incoming.try_flush()).waits,
            false => {
                self.behind.set();
                true
            }
        };
        if waits {
            // A reader may have freed a slot, and another thread may have left the mirror, before the flag was seen.
            self.bell.ring();
        }
    }

    fn taken(&self, from: ProcessId, mirror: ChannelId, messages: u64) {
        match self.taken.get(&mirror) {
            Some((to, taken)) if *to == from => {
                // Relaxed: see `Outgoing::settle`.
                taken.fetch_max(messages, Ordering::Relaxed);
                self.bell.ring();
            }
            _ => self.fail(
                LaneId::DRIVER,
                format!("{from} has taken from no edge of this process"),
            ),
        }
    }

    /// Acts on a word that only the driver says.
    fn of_driver(&self, word: &Word) {
        match word {
            Word::Begin => self.begins(),
            Word::Cancel(execution) => self.control.cancel(*execution),
            Word::Ask { question } => {
                let (question, lanes) = (*question, self.control.all_progress());
                // Without the driver this process ends.
                let _ = self.send(
                    ProcessId::DRIVER,
                    &Word::Progress { question, lanes },
                    Body::default(),
                );
            }
            _ => self.ended(),
        }
    }

    /// Acts on a word that only the driver is told.
    fn to_driver(&self, (host, from): (HostId, ProcessId), word: Word) {
        match word {
            Word::Progress { question, lanes } => self.asking.answer(from, question, lanes),
            Word::Memory(memory) => {
                self.memories.lock().insert(host.0, memory);
            }
            Word::Failed { lane, text } => self.is_told(lane, text),
            _ => {}
        }
    }

    fn host_of_other(&self, process: ProcessId) -> Option<HostId> {
        let other = self.others.iter().find(|(_, other)| *other == process);
        other.map(|(host, _)| *host)
    }
}

impl Correspondent for Joint {
    fn received(&self, from: ProcessId, words: &[u8], body: Bytes) {
        let Some(word) = Word::decoded(words) else {
            return self.fail(LaneId::DRIVER, format!("{from} has sent what no joint says"));
        };
        match word {
            Word::Message { mirror, number, kind } => self.message(from, (mirror, number, kind), body),
            Word::Taken { mirror, messages } => self.taken(from, mirror, messages),
            Word::Share { group, number } => {
                let arrived = self.shares.arrived(from, group as usize, number, body);
                if let Err(why) = arrived {
                    self.fail(LaneId::DRIVER, why);
                }
            }
            Word::Begin | Word::Cancel(_) | Word::Ask { .. } | Word::Stop => {
                if from == ProcessId::DRIVER {
                    self.of_driver(&word);
                }
            }
            Word::Memory(_) | Word::Failed { .. } | Word::Progress { .. } => {
                if let (ProcessId::DRIVER, Some(host)) = (self.process, self.host_of_other(from)) {
                    self.to_driver((host, from), word);
                }
            }
        }
    }

    fn lend(&self, from: ProcessId, words: &[u8], bytes: usize) -> Option<Box<dyn LentMemory>> {
        let Some(Word::Message {
            mirror,
            number,
            kind: MessageKind::Value,
        }) = Word::decoded(words)
        else {
            return None;
        };
        self.incoming.get(&mirror)?.lend(from, number, bytes)
    }

    fn lost(&self, process: ProcessId) {
        // The runtime tells the driver of deaths; a worker that has lost the driver ends.
        let counts = self.process != ProcessId::DRIVER && process != ProcessId::DRIVER;
        if counts && self.edges.contains_key(&process) && self.control.state() == GraphState::Running {
            self.trouble(format!("{} is dead or cannot be reached", self.other(process)));
        }
    }

    fn ended(&self) {
        // SYNC joint-stopped: pairs with the load in `at_the_end`. The control block says later that the graph has ended.
        self.has_stopped.store(true, Ordering::Release);
        self.control.stop();
    }
}

/// The edges and collectives between a process and each other one on another host, in words.
fn edges(plan: &Plan, process: ProcessId) -> IdMap<ProcessId, String> {
    let mut names: IdMap<ProcessId, Vec<String>> = IdMap::new();
    for shuttle in plan.shuttles() {
        let other = match (shuttle.from == process, shuttle.to == process) {
            (true, _) => shuttle.to,
            (_, true) => shuttle.from,
            _ => continue,
        };
        let channel = plan.channels.get(shuttle.mirror.0 as usize);
        let name = channel.map(|channel| format!("`{}`", plan.ir.value_name(channel.value)));
        names.or_default(other).extend(name);
    }
    for group in plan.communicators.iter().filter(|group| group.is_over_hosts()) {
        let leaders = group.leaders();
        if leaders.iter().any(|leader| leader.address.process == process) {
            for other in leaders.iter().filter(|other| other.address.process != process) {
                let name = plan.ir.actor(other.actor).map(|actor| &actor.name);
                let name = name.map(|name| format!("a collective of `{name}`"));
                names.or_default(other.address.process).extend(name);
            }
        }
    }
    let described = |(other, names): (ProcessId, Vec<String>)| (other, names.join(", "));
    names.into_iter().map(described).collect()
}
