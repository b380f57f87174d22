//! The events of a run.

mod driver;
mod faults;
mod network;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use driver::WatchedWorker;
use network::{Down, Up};
use parking_lot::Mutex;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use worker::{KnownMembers, LastLife, ScaleWorker, place};

use super::ScaleSetting;
use super::report::ScaleReport;
use crate::hub::broker::Broker;
use crate::hub::mutant::MemberMutant;
use crate::hub::{Hub, LinkSettings};

/// The workers that have a hub; the others note whom they know.
const HUBS: usize = 8;
/// The time in which all workers start.
const STARTS: Duration = Duration::from_secs(30);
/// The time after which a process is started again, or dials again.
const START_TIME: Duration = Duration::from_secs(1);

enum ScaleEvent {
    /// The process in this place starts.
    Start(usize),
    /// A process has said hello.
    Hello(Peer),
    /// The driver's next question is due.
    Question(Peer),
    ToWorker(Peer, Down),
    ToDriver(Peer, Up),
    Kill(usize),
    StandStill(usize, Duration),
    Cut,
    /// A worker behind a cut gives up.
    GiveUp(Peer),
}

#[derive(Clone, Copy, Default)]
struct ScaleHost {
    stands_still_until: Duration,
    cut: Option<(Duration, Duration)>,
    /// The moment from which it could not be heard.
    silent_since: Duration,
}

pub(super) struct ScaleWorld {
    setting: ScaleSetting,
    random: u64,
    now: Duration,
    /// The events to come, by their moments; those of one moment in the order in which they were planned.
    events: BTreeMap<(Duration, u64), ScaleEvent>,
    last_event: u64,
    broker: Broker,
    members: BTreeMap<Peer, WatchedWorker>,
    full: Arc<Mutex<Vec<Peer>>>,
    hosts: Vec<ScaleHost>,
    /// The living processes, by their place, and the lives that each place has had.
    processes: Vec<Option<ScaleWorker>>,
    lives: Vec<u32>,
    killed: BTreeMap<Peer, Duration>,
    cut_ended: Option<Duration>,
    /// The notices that are on their way to living processes.
    under_way: usize,
    report: ScaleReport,
}

impl ScaleWorld {
    pub(super) fn new(setting: ScaleSetting, seed: u64) -> Self {
        let places = setting.hosts * setting.workers;
        ScaleWorld {
            setting,
            random: seed,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            last_event: 0,
            broker: Broker::default(),
            members: BTreeMap::new(),
            full: Arc::default(),
            hosts: vec![ScaleHost::default(); setting.hosts],
            processes: (0..places).map(|_| None).collect(),
            lives: vec![0; places],
            killed: BTreeMap::new(),
            cut_ended: None,
            under_way: 0,
            report: ScaleReport {
                time: setting.time,
                ..ScaleReport::default()
            },
        }
    }

    /// The driver makes a mistake.
    pub(super) fn with_mutant(mut self, mutant: MemberMutant) -> Self {
        self.broker.mutant = mutant;
        self
    }

    pub(super) fn run(mut self) -> ScaleReport {
        self.plan();
        while let Some(((at, _), event)) = self.events.pop_first()
            && at <= self.setting.time
        {
            self.now = at;
            self.perform(event);
            self.flush();
        }
        self.check_agreement(true);
        self.report.members = self.members.len();
        self.report
    }

    fn perform(&mut self, event: ScaleEvent) {
        match event {
            ScaleEvent::Start(place) => self.start(place),
            ScaleEvent::Hello(peer) => self.hello(peer),
            ScaleEvent::Question(peer) => self.question(peer),
            ScaleEvent::ToWorker(peer, down) => self.arrive_at_worker(peer, down),
            ScaleEvent::ToDriver(peer, up) => self.arrive_at_driver(peer, up),
            ScaleEvent::Kill(place) => self.kill(place),
            ScaleEvent::StandStill(host, lasts) => self.stand_still(host, lasts),
            ScaleEvent::Cut => self.cut(),
            ScaleEvent::GiveUp(peer) => self.end(peer),
        }
    }

    fn start(&mut self, place: usize) {
        if self.processes[place].is_some() {
            return;
        }
        let host = self.hosts[place / self.setting.workers];
        let is_cut = host.cut.is_some_and(|(_, until)| self.now < until);
        if is_cut || self.now < host.stands_still_until {
            return self.at(self.now + START_TIME, ScaleEvent::Start(place));
        }
        self.lives[place] += 1;
        let peer = Peer {
            process: ProcessId::new(place as u32 + 2).unwrap(),
            incarnation: Incarnation(self.lives[place]),
        };
        let stride = (self.processes.len() / HUBS).max(1);
        let head = ProcessId::HEAD.first_life();
        let known = match place % stride {
            0 => KnownMembers::Hub(Hub::of_worker(peer, head, LinkSettings::default(), |_| {})),
            _ => KnownMembers::Noted(vec![LastLife::default(); self.processes.len()]),
        };
        self.processes[place] = Some(ScaleWorker {
            peer,
            known,
            unread: 0,
            last_down: Duration::ZERO,
            last_up: Duration::ZERO,
        });
        let arrives = self.arrival(peer, false);
        self.at(arrives, ScaleEvent::Hello(peer));
    }

    fn arrive_at_worker(&mut self, peer: Peer, down: Down) {
        let stands_still_until = self.hosts[self.host(peer)].stands_still_until;
        if self.now < stands_still_until {
            return self.at(stands_still_until, ScaleEvent::ToWorker(peer, down));
        }
        let place = place(peer);
        let living = self.processes[place].as_mut().filter(|it| it.peer == peer);
        match (living, down) {
            (None, _) => {}
            (Some(_), Down::Ping) => self.send_up(peer, Up::Pong),
            (Some(_), Down::Closed) => self.end(peer),
            (Some(process), Down::Notices(notices)) => {
                process.unread -= notices.len();
                self.under_way -= notices.len();
                let broken: Vec<String> = notices.into_iter().filter_map(|it| process.hear(it)).collect();
                broken.into_iter().for_each(|it| self.broken(it));
                self.check_agreement(false);
            }
        }
    }

    /// After the cut: all members are back, and nothing is on its way. In the end: all members know exactly each other.
    fn check_agreement(&mut self, is_end: bool) {
        let is_after_cut =
            self.cut_ended.is_some_and(|it| self.now > it) && self.report.convergence.is_none();
        let is_due = is_end || (is_after_cut && self.is_at_rest());
        if !is_due {
            return;
        }
        if let (Some(ended), None, false) = (self.cut_ended, self.report.convergence, is_end) {
            self.report.convergence = Some(self.now - ended);
        }
        let wrong: Vec<String> = self
            .processes
            .iter()
            .flatten()
            .filter_map(|it| it.differs(&self.members))
            .collect();
        wrong.into_iter().for_each(|it| self.broken(it));
        if self.members.len() < self.processes.len() {
            self.broken(format!("{} members have come back", self.members.len()));
        }
    }

    fn is_at_rest(&self) -> bool {
        self.under_way == 0
            && self.members.len() == self.processes.len()
            && self
                .processes
                .iter()
                .flatten()
                .all(|it| self.members.contains_key(&it.peer))
    }

    fn process(&self, peer: Peer) -> Option<&ScaleWorker> {
        self.processes[place(peer)].as_ref().filter(|it| it.peer == peer)
    }

    fn host(&self, peer: Peer) -> usize {
        place(peer) / self.setting.workers
    }

    fn broken(&mut self, what: String) {
        if self.report.broken.len() < 10 {
            self.report.broken.push(format!("{:?}: {what}", self.now));
        }
    }
}
