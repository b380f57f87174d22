//! The queue of events, and what each of them does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use selvedge_cluster::session::{Content, Outcome, Packet, Received};
use selvedge_objects::refs::{Action, Event, Parcel, RefId};

use crate::faults::Setting;
use crate::oracle::Oracle;
use crate::process::{Payload, Process, index, peer};
use crate::random::{Random, mixed};
use crate::report::Report;

/// The bytes that a session counts for a frame.
const FRAME_BYTES: usize = 100;
/// A run that is not at rest after this virtual time has a wait that does not end.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// The time for a shutdown: others may hold references until the end of the run.
const SHUTDOWN: Duration = Duration::from_secs(600);

/// Something that happens at a process.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A user creates an object, here or elsewhere.
    Create,
    /// A user passes a reference on.
    Pass(RefId),
    /// A user asks for the value.
    Fetch(RefId),
    /// A user drops a handle.
    Drop(RefId),
    /// The function of a kept call ends.
    Fill(RefId),
    /// A frame arrives.
    Arrive(usize, Packet<Payload>),
    /// A timer: of the references, or of the session with a process.
    Wake(Option<usize>),
    /// The process dies.
    End,
    /// The process shuts down.
    Shutdown,
    /// The process learns that another one is dead.
    Learn(usize),
}

/// A run.
#[derive(Debug)]
pub struct World {
    pub(crate) setting: Setting,
    pub(crate) random: Random,
    pub(crate) now: Duration,
    pub(crate) processes: Vec<Process>,
    pub(crate) oracle: Oracle,
    pub(crate) report: Report,
    /// By time and order of scheduling.
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    happenings: BTreeMap<u64, (usize, Happening)>,
    scheduled: u64,
}

/// Runs a seed to its end.
pub fn run(setting: Setting, seed: u64) -> Report {
    let mut world = World::new(setting, seed);
    world.schedule_users();
    world.schedule_deaths();
    world.schedule_shutdowns();
    world.run();
    world.finish()
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(setting: Setting, seed: u64) -> Self {
        World {
            setting,
            random: Random::new(mixed(seed)),
            now: Duration::ZERO,
            processes: (0..setting.processes as usize).map(Process::new).collect(),
            oracle: Oracle::default(),
            report: Report::default(),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            scheduled: 0,
        }
    }

    pub(crate) fn schedule(&mut self, time: Duration, at: usize, happening: Happening) {
        self.scheduled += 1;
        self.queue.push(Reverse((time, self.scheduled)));
        self.happenings.insert(self.scheduled, (at, happening));
    }

    /// Lets everything happen until nothing is left to happen.
    pub fn run(&mut self) {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            if time > TIME_MAX {
                break;
            }
            self.now = time;
            if let Some((at, happening)) = self.happenings.remove(&number) {
                let kind = std::mem::discriminant(&happening);
                let words = [time.as_nanos() as u64, at as u64, hash_of(&kind)];
                self.report.hash = words
                    .iter()
                    .fold(self.report.hash, |hash, word| mixed(hash ^ word));
                if self.processes.get(at).is_some_and(|process| process.is_alive) {
                    self.happen(at, happening);
                }
            }
        }
    }

    /// Counts what is left.
    pub fn finish(mut self) -> Report {
        self.report.time = self.now;
        for process in self.processes.iter().filter(|process| process.is_alive) {
            self.report.count_left(&process.refs.stats());
            self.report.waits_left += process.fetches.len() + process.calls.len();
            self.report.waits_left += process.on_their_way.len();
        }
        self.report
    }

    fn happen(&mut self, at: usize, happening: Happening) {
        match happening {
            Happening::Create => self.create(at),
            Happening::Pass(id) => self.pass(at, id),
            Happening::Fetch(id) => self.fetch(at, id),
            Happening::Drop(id) => self.step(at, Event::Dropped(id)),
            Happening::Fill(id) => {
                let actions = self.processes.get_mut(at).map(|it| it.refs.fill(id));
                self.perform(at, actions.and_then(Result::ok).unwrap_or_default());
            }
            Happening::Arrive(from, packet) => self.arrive(at, from, packet),
            Happening::Wake(timer) => self.wake(at, timer),
            Happening::End => {
                if let Some(process) = self.processes.get_mut(at) {
                    process.is_alive = false;
                }
            }
            Happening::Shutdown => {
                let deadline = self.now + SHUTDOWN;
                self.step(at, Event::End { deadline });
            }
            Happening::Learn(dead) => self.learn(at, dead),
        }
    }

    pub(crate) fn step(&mut self, at: usize, event: Event) {
        let now = self.now;
        let actions = self.processes.get_mut(at).map(|it| it.refs.step(now, event));
        self.perform(at, actions.unwrap_or_default());
    }

    fn perform(&mut self, at: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, bundle } => {
                    self.report.reference_frames += 1;
                    self.send_loose(at, index(to), Payload::References(bundle));
                }
                Action::Run { call } => self.run_call(at, call),
                Action::Free(id) => {
                    self.report.freed += 1;
                    self.report.freed_early += self.oracle.frees(&self.processes, id);
                }
                Action::Answer { to, question, .. } | Action::Refuse { to, question, .. } => {
                    self.send(at, index(to), Payload::Answer { question }, Vec::new());
                }
                Action::RefuseCall { call, .. } => self.refuse_call(at, call),
                Action::Abandon { call } => self.abandon_call(at, call),
                // No lawful process has too much, or is slower than a minute.
                Action::Overloaded { .. } | Action::RefuseFetch { .. } | Action::TimedOut(_) => {
                    self.report.freed_early += 1;
                }
                Action::Ended { leaks } => {
                    self.report.shutdowns += 1;
                    self.report.left_over += leaks.len();
                }
                Action::Confirmed(id) => {
                    let is_late = self.oracle.is_confirmed_late(&self.processes, at, id);
                    self.report.freed_early += u64::from(is_late);
                }
                Action::Lost(id) => self.lost(at, id),
                Action::Failed(id) => self.report.freed_early += u64::from(!self.oracle.may_be_lost(id)),
            }
        }
        let due = self.processes.get(at).and_then(|it| it.refs.deadline());
        self.set_timer(at, None, due);
    }

    fn lost(&mut self, at: usize, id: RefId) {
        self.report.freed_early += u64::from(!self.oracle.may_be_lost(id));
        self.end_fetches(at, |lost| lost == id);
    }

    fn set_timer(&mut self, at: usize, timer: Option<usize>, due: Option<Duration>) {
        let (now, Some(process), Some(due)) = (self.now, self.processes.get_mut(at), due) else {
            return;
        };
        let is_earlier = process
            .wakes
            .get(&timer)
            .is_none_or(|wake| *wake <= now || due < *wake);
        if is_earlier {
            let due = due.max(now);
            process.wakes.insert(timer, due);
            self.schedule(due, at, Happening::Wake(timer));
        }
    }

    fn wake(&mut self, at: usize, timer: Option<usize>) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(at) {
            process.wakes.remove(&timer);
        }
        let Some(other) = timer else {
            return self.step(at, Event::Tick);
        };
        let session = self
            .processes
            .get_mut(at)
            .and_then(|it| it.sessions.get_mut(&other));
        let packets = session.map(|it| it.tick(now)).unwrap_or_default();
        self.transmit(at, other, packets);
    }

    /// Sends an ordered message; one that does not fit into the window is sent when there is room.
    pub(crate) fn send(&mut self, at: usize, to: usize, payload: Payload, parcels: Vec<Parcel>) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(at).filter(|it| !it.dead.contains(&to)) else {
            return;
        };
        match process.session(now, to).send(now, payload, FRAME_BYTES) {
            Ok((sequence, packet)) => {
                if !parcels.is_empty() {
                    process.on_their_way.insert((to, sequence), parcels);
                }
                self.transmit(at, to, packet);
            }
            // A caller that gives up: the message was never sent.
            Err(_) => self.undo(at, to, parcels),
        }
    }

    fn undo(&mut self, at: usize, to: usize, parcels: Vec<Parcel>) {
        for parcel in parcels {
            let to = peer(to);
            self.step(at, Event::NotSent { to, parcel });
        }
    }

    fn send_loose(&mut self, at: usize, to: usize, payload: Payload) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(at).filter(|it| !it.dead.contains(&to)) {
            let packet = process.session(now, to).send_loose(payload);
            self.transmit(at, to, packet);
        }
    }

    fn received(&mut self, at: usize, other: usize, received: Received<Payload>) {
        if let Some(process) = self.processes.get_mut(at) {
            for sequence in received.settled {
                process.on_their_way.remove(&(other, sequence));
            }
        }
        for payload in received.messages {
            self.deliver(at, other, payload);
        }
        self.set_session_timer(at, other);
    }

    fn set_session_timer(&mut self, at: usize, other: usize) {
        let session = self.processes.get(at).and_then(|it| it.sessions.get(&other));
        let due = session.and_then(|it| it.deadline());
        self.set_timer(at, Some(other), due);
    }

    fn transmit(&mut self, from: usize, to: usize, packets: impl IntoIterator<Item = Packet<Payload>>) {
        for packet in packets {
            self.report.frames += 1;
            for delay in self.setting.delays(&mut self.random) {
                self.schedule(self.now + delay, to, Happening::Arrive(from, packet.clone()));
            }
        }
        self.set_session_timer(from, to);
    }

    fn arrive(&mut self, at: usize, from: usize, packet: Packet<Payload>) {
        let now = self.now;
        let is_fenced = self.processes.get(at).is_some_and(|it| it.dead.contains(&from));
        let (false, Some(process)) = (is_fenced, self.processes.get_mut(at)) else {
            return;
        };
        let bytes = match &packet.content {
            Content::Acknowledgement => 0,
            Content::Ordered(..) | Content::Loose(_) => FRAME_BYTES,
        };
        match process.session(now, from).received(now, packet, bytes) {
            Ok(received) => self.received(at, from, received),
            Err(_) => self.report.freed_early += 1, // no lawful process violates the protocol
        }
    }

    fn deliver(&mut self, at: usize, from: usize, payload: Payload) {
        match payload {
            Payload::Call(parcels) => self.receive_call(at, from, parcels),
            Payload::References(bundle) => {
                let from = peer(from);
                self.step(at, Event::Heard { from, bundle });
            }
            Payload::Fetch { question, id } => {
                let from = peer(from);
                self.step(at, Event::Fetch { from, question, id });
            }
            Payload::Answer { question } => self.answered(at, question),
        }
    }

    /// A process learns of a death: its session ends, and then its references are told.
    fn learn(&mut self, at: usize, dead: usize) {
        let ended = self
            .processes
            .get_mut(at)
            .and_then(|it| it.sessions.remove(&dead));
        let outcomes = ended.map(|it| it.end()).unwrap_or_default();
        for (sequence, outcome) in outcomes {
            let process = self.processes.get_mut(at);
            let parcels = process.and_then(|it| it.on_their_way.remove(&(dead, sequence)));
            if outcome == Outcome::NotSent {
                self.undo(at, dead, parcels.unwrap_or_default());
            }
        }
        if let Some(process) = self.processes.get_mut(at) {
            process.dead.insert(dead);
        }
        self.step(at, Event::Dead(peer(dead)));
        self.end_fetches(at, |id| id.owner == peer(dead));
    }
}

/// A number for a kind of happening, stable within a build.
fn hash_of(kind: &std::mem::Discriminant<Happening>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    hasher.finish()
}
