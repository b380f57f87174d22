//! The events of a run, and the connections between the driver and its workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::ScaleSetting;
use super::report::ScaleReport;
use crate::control::silence::{QUESTIONS, SilentQuestions};
use crate::hub::broker::{Broker, Courier, JoinsAs};
use crate::hub::mutant::MemberMutant;
use crate::hub::notice::Notice;
use crate::hub::post::Post;
use crate::hub::{Hub, LinkSettings};
use crate::platform::peer_socket::PeerEnd;
use crate::topology::{Names, Station};

/// The workers that have a hub; the others note whom they know.
const HUBS: usize = 8;
/// The time in which all workers start.
const STARTS: Duration = Duration::from_secs(30);
/// The time before and after the cut, and before the end, in which nothing else goes wrong.
const QUIET: Duration = Duration::from_secs(120);
const CUT_TIME: Duration = Duration::from_secs(30);
/// The time after which a process is started again, or dials again.
const START_TIME: Duration = Duration::from_secs(1);
/// The time after which a worker that reaches nobody has given up its connection, and has not got another one
/// (`TCP_USER_TIMEOUT`, and 5 s for dialling).
const GIVE_UP: Duration = Duration::from_secs(19);
/// The time after which TCP sends a lost packet again; it doubles.
const RESEND: Duration = Duration::from_millis(200);

/// What is on its way to a worker.
enum Down {
    Ping,
    Notices(Vec<Notice>),
    /// The driver has closed the connection.
    Closed,
}

/// What is on its way to the driver.
enum Up {
    Pong,
    /// The connection has ended, and nobody listens at the worker's place any more.
    Gone,
}

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

/// The notices that the driver has for one worker.
struct Outbox {
    to: Peer,
    notices: Mutex<Vec<Notice>>,
    full: Arc<Mutex<Vec<Peer>>>,
}

impl Courier for Outbox {
    fn tell(&self, notice: Notice, _: Option<PeerEnd>) {
        let mut notices = self.notices.lock();
        if notices.is_empty() {
            self.full.lock().push(self.to);
        }
        notices.push(notice);
    }

    fn kill(&self, _: &str) {}
}

/// What a worker knows of the others.
enum KnownMembers {
    /// By their places. There are many workers, so each takes little.
    Noted(Vec<LastLife>),
    Hub(Arc<Hub>),
}

/// The last life of a process of which another one has heard: twice its number, and one if it is over.
#[derive(Clone, Copy, Default)]
struct LastLife(u32);

impl LastLife {
    fn new(peer: Peer, is_over: bool) -> Self {
        LastLife(peer.incarnation.0 * 2 + u32::from(is_over))
    }

    fn lives(self) -> bool {
        self.0 != 0 && self.0.is_multiple_of(2)
    }
}

/// A living process.
struct ScaleWorker {
    peer: Peer,
    known: KnownMembers,
    /// The notices that are on their way to it.
    unread: usize,
    /// The arrival of the last thing that was sent, in each direction.
    last_down: Duration,
    last_up: Duration,
}

/// A member, as the driver knows it.
struct WatchedWorker {
    outbox: Arc<Outbox>,
    unanswered: SilentQuestions,
    was_heard: bool,
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

    /// Plans the starts, and all faults.
    fn plan(&mut self) {
        let ScaleSetting {
            hosts,
            workers,
            time,
            kills,
            freezes,
            pauses,
            cut_percent,
            ..
        } = self.setting;
        for place in 0..hosts * workers {
            let at = self.below(STARTS);
            self.at(at, ScaleEvent::Start(place));
        }
        for _ in 0..kills {
            let (at, place) = (self.quiet_moment(), self.draw() as usize % (hosts * workers));
            self.at(at, ScaleEvent::Kill(place));
        }
        for number in 0..freezes + pauses {
            let (at, host) = (self.quiet_moment(), self.draw() as usize % hosts);
            let [least, more] = match number < freezes {
                true => [15, 15],
                false => [0, 4],
            };
            let lasts = Duration::from_secs(least) + self.below(Duration::from_secs(more));
            self.at(at, ScaleEvent::StandStill(host, lasts));
        }
        if cut_percent > 0 {
            self.at(time / 2, ScaleEvent::Cut);
        }
    }

    /// A moment at which something goes wrong: not at the start, the cut or the end.
    fn quiet_moment(&mut self) -> Duration {
        let half = self.setting.time / 2;
        let span = half - QUIET - STARTS - QUIET;
        let first = QUIET + STARTS + self.below(span);
        match self.draw() % 2 {
            0 => first,
            _ => first + half,
        }
    }

    fn perform(&mut self, event: ScaleEvent) {
        match event {
            ScaleEvent::Start(place) => self.start(place),
            ScaleEvent::Hello(peer) => self.hello(peer),
            ScaleEvent::Question(peer) => self.question(peer),
            ScaleEvent::ToWorker(peer, down) => self.arrive_at_worker(peer, down),
            ScaleEvent::ToDriver(peer, up) => self.arrive_at_driver(peer, up),
            ScaleEvent::Kill(place) => self.kill(place),
            ScaleEvent::StandStill(host, lasts) => {
                let host = &mut self.hosts[host];
                if self.now >= host.stands_still_until {
                    host.silent_since = self.now;
                    host.stands_still_until = self.now + lasts;
                }
            }
            ScaleEvent::Cut => self.cut(),
            ScaleEvent::GiveUp(peer) => self.end(peer),
        }
    }

    fn start(&mut self, place: usize) {
        let host = self.hosts[place / self.setting.workers];
        let is_cut = host.cut.is_some_and(|(_, until)| self.now < until);
        if self.processes[place].is_some() || is_cut || self.now < host.stands_still_until {
            if self.processes[place].is_none() {
                self.at(self.now + START_TIME, ScaleEvent::Start(place));
            }
            return;
        }
        self.lives[place] += 1;
        let peer = Peer {
            process: ProcessId::new(place as u32 + 2).unwrap(),
            incarnation: Incarnation(self.lives[place]),
        };
        let stride = (self.processes.len() / HUBS).max(1);
        let head = Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        };
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

    fn hello(&mut self, peer: Peer) {
        if self.process(peer).is_none() {
            return;
        }
        // The driver starts a process only once the one before it is buried; a process that starts by itself shows that.
        let before = self.member(peer.process);
        if let Some(before) = before {
            self.bury(before);
        }
        let outbox = Arc::new(Outbox {
            to: peer,
            notices: Mutex::default(),
            full: Arc::clone(&self.full),
        });
        let station = Station {
            listens_at: Some(peer.to_string()),
            names: Names::default(),
        };
        let courier = Arc::clone(&outbox) as Arc<dyn Courier>;
        self.broker.join(peer, courier, Some(station), JoinsAs::Worker);
        let watched = WatchedWorker {
            outbox,
            unanswered: SilentQuestions::default(),
            was_heard: true,
        };
        self.members.insert(peer, watched);
        self.at(
            self.now + self.setting.limit / QUESTIONS,
            ScaleEvent::Question(peer),
        );
    }

    fn question(&mut self, peer: Peer) {
        let Some(watched) = self.members.get_mut(&peer) else {
            return;
        };
        let was_heard = std::mem::take(&mut watched.was_heard);
        if watched.unanswered.count(was_heard) {
            self.note_silence(peer);
            return self.bury(peer);
        }
        self.report.letters.0 += 1;
        self.send_down(peer, Down::Ping);
        self.at(
            self.now + self.setting.limit / QUESTIONS,
            ScaleEvent::Question(peer),
        );
    }

    /// A worker is buried because it is silent: rightly if its host was, all the time.
    fn note_silence(&mut self, peer: Peer) {
        let (setting, now) = (self.setting, self.now);
        let host = self.hosts[self.host(peer)];
        let until = host
            .stands_still_until
            .max(host.cut.map_or(Duration::ZERO, |(_, until)| until));
        let silent_for = now - host.silent_since;
        // The question before the last answer, and the way of that answer.
        let slack = setting.limit / QUESTIONS + Duration::from_millis(400);
        let was_silent =
            silent_for + slack >= setting.limit && until + slack >= host.silent_since + setting.limit / 2;
        match was_silent {
            true => self.report.silences.push(silent_for),
            false => self.broken(format!("{peer} could be heard, and was buried")),
        }
    }

    fn bury(&mut self, peer: Peer) {
        if self.members.remove(&peer).is_none() {
            return;
        }
        drop(self.broker.bury(peer));
        if let Some(at) = self.killed.remove(&peer) {
            self.report.kills.push(self.now - at);
        }
        self.send_down(peer, Down::Closed);
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

    fn arrive_at_driver(&mut self, peer: Peer, up: Up) {
        self.report.letters.1 += 1;
        match up {
            Up::Pong => {
                if let Some(watched) = self.members.get_mut(&peer) {
                    watched.was_heard = true;
                }
            }
            Up::Gone => self.bury(peer),
        }
    }

    fn kill(&mut self, place: usize) {
        let host = self.hosts[place / self.setting.workers];
        let living = self.processes[place].as_ref().map(|it| it.peer);
        match living {
            Some(peer) if self.members.contains_key(&peer) && self.now >= host.stands_still_until => {
                self.killed.insert(peer, self.now);
                self.end(peer);
            }
            // Later, so that as many are killed as were asked for.
            _ => self.at(self.now + START_TIME, ScaleEvent::Kill(place)),
        }
    }

    /// A process ends, and is started again. Its system ends its connection; the driver dials its place, and finds nobody.
    fn end(&mut self, peer: Peer) {
        let place = place(peer);
        if self.processes[place].as_ref().is_none_or(|it| it.peer != peer) {
            return;
        }
        let ended = self.arrival(peer, false);
        let process = self.processes[place].take();
        self.under_way -= process.map_or(0, |it| it.unread);
        let known = ended + 2 * self.delay(peer);
        self.at(known, ScaleEvent::ToDriver(peer, Up::Gone));
        self.at(self.now + START_TIME, ScaleEvent::Start(place));
    }

    fn cut(&mut self) {
        let until = self.now + CUT_TIME;
        for host in 0..self.setting.hosts * self.setting.cut_percent / 100 {
            // Those far away and those near, as they come.
            self.hosts[host].cut = Some((self.now, until));
            self.hosts[host].silent_since = self.now;
            for place in host * self.setting.workers..(host + 1) * self.setting.workers {
                if let Some(peer) = self.processes[place].as_ref().map(|it| it.peer) {
                    self.at(self.now + GIVE_UP, ScaleEvent::GiveUp(peer));
                }
            }
        }
        self.cut_ended = Some(until);
    }

    /// After the cut: all members are back, and nothing is on its way. In the end: all members know exactly each other.
    fn check_agreement(&mut self, is_end: bool) {
        let is_after_cut =
            self.cut_ended.is_some_and(|it| self.now > it) && self.report.convergence.is_none();
        let is_due = is_end || (is_after_cut && self.is_at_rest());
        if !is_due {
            return;
        }
        if let (Some(ended), None) = (self.cut_ended, self.report.convergence) {
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

    /// Sends what the driver has to tell.
    fn flush(&mut self) {
        let full = std::mem::take(&mut *self.full.lock());
        for peer in full {
            let Some(watched) = self.members.get(&peer) else {
                continue;
            };
            let notices = std::mem::take(&mut *watched.outbox.notices.lock());
            let count = notices.len();
            let place = place(peer);
            if let Some(process) = self.processes[place].as_mut().filter(|it| it.peer == peer) {
                process.unread += count;
                self.under_way += count;
            }
            self.report.letters.0 += count as u64;
            self.report.notices += count as u64;
            self.send_down(peer, Down::Notices(notices));
        }
    }

    fn send_down(&mut self, peer: Peer, down: Down) {
        let arrives = self.arrival(peer, true);
        self.at(arrives, ScaleEvent::ToWorker(peer, down));
    }

    fn send_up(&mut self, peer: Peer, up: Up) {
        let arrives = self.arrival(peer, false);
        self.at(arrives, ScaleEvent::ToDriver(peer, up));
    }

    /// The moment at which something arrives that is sent now: not before what was sent before it.
    fn arrival(&mut self, peer: Peer, is_down: bool) -> Duration {
        let (mut leaves, mut pause) = (self.now, RESEND);
        let cut = self.hosts[self.host(peer)].cut;
        let is_cut = |at: Duration| cut.is_some_and(|(from, until)| (from..until).contains(&at));
        while is_cut(leaves) || self.draw() % 1000 < self.setting.loss_per_mille {
            leaves += pause;
            pause *= 2;
        }
        let arrives = leaves + self.delay(peer);
        let place = place(peer);
        let Some(process) = self.processes[place].as_mut().filter(|it| it.peer == peer) else {
            return arrives;
        };
        let last = match is_down {
            true => &mut process.last_down,
            false => &mut process.last_up,
        };
        *last = arrives.max(*last);
        *last
    }

    fn delay(&mut self, peer: Peer) -> Duration {
        let host = self.host(peer) as u64;
        let micros = match host % 10 {
            0..5 => 50,
            5..8 => 500,
            _ => 5_000 + host * 7_919 % 145_000,
        };
        let jitter = self.draw() % (micros / 5 + 1);
        Duration::from_micros(micros + jitter)
    }

    fn member(&self, process: ProcessId) -> Option<Peer> {
        let [first, last] = [0, u32::MAX].map(|number| Peer {
            process,
            incarnation: Incarnation(number),
        });
        self.members.range(first..=last).next().map(|(peer, _)| *peer)
    }

    fn process(&self, peer: Peer) -> Option<&ScaleWorker> {
        self.processes[place(peer)].as_ref().filter(|it| it.peer == peer)
    }

    fn host(&self, peer: Peer) -> usize {
        place(peer) / self.setting.workers
    }

    fn at(&mut self, at: Duration, event: ScaleEvent) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    /// The generator SplitMix64 of Steele, Lea and Flood (2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: Duration) -> Duration {
        Duration::from_micros(self.draw() % (end.as_micros() as u64).max(1))
    }

    fn broken(&mut self, what: String) {
        if self.report.broken.len() < 10 {
            self.report.broken.push(format!("{:?}: {what}", self.now));
        }
    }
}

/// The place of a process: the head has number 1.
fn place(peer: Peer) -> usize {
    peer.process.number() as usize - 2
}

impl ScaleWorker {
    /// Takes a notice. Returns the promise that it breaks.
    fn hear(&mut self, notice: Notice) -> Option<String> {
        let known = match &mut self.known {
            KnownMembers::Hub(hub) => {
                hub.notice(notice, None);
                return None;
            }
            KnownMembers::Noted(known) => known,
        };
        let (peer, is_over) = match notice {
            Notice::Joined(peer, _) => (peer, false),
            Notice::Died(peer) => (peer, true),
            _ => return None,
        };
        // A life is heard of once, is over once, and is followed by later ones.
        let (before, life) = (&mut known[place(peer)], LastLife::new(peer, is_over));
        let is_wrong = life.0 <= before.0;
        *before = life;
        is_wrong.then(|| format!("{} hears of {peer} again", self.peer))
    }

    /// How the peers that this process knows differ from the members.
    fn differs(&self, members: &BTreeMap<Peer, WatchedWorker>) -> Option<String> {
        let is_same = match &self.known {
            KnownMembers::Hub(hub) => {
                let others = members.keys().filter(|it| **it != self.peer);
                hub.peers().iter().skip(1).eq(others)
            }
            KnownMembers::Noted(known) => {
                let as_known = |(peer, _): (&Peer, &WatchedWorker)| {
                    *peer == self.peer || known[place(*peer)].0 == LastLife::new(*peer, false).0
                };
                let living = known.iter().filter(|life| life.lives()).count();
                members.iter().all(as_known) && living == members.len() - 1
            }
        };
        (!is_same).then(|| format!("{} knows others than the members", self.peer))
    }
}
