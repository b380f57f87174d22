//! The queue of events of a simulated cluster, and its network.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use selvedge_cluster::membership::WhyDead;
use selvedge_cluster::peer::{Peer, ProcessId};

use super::head::{HEAD, Head};
use super::host::{Frame, Host, Member, Message};
use super::report::MemberReport;
use super::setting::{BUNDLE_TIME, CUT_TIME, LOOK_TIME, MemberSetting, START_TIME};
use crate::random::Random;

const SECOND: Duration = Duration::from_secs(1);
/// The time in which all hosts start.
const STARTS: u64 = 30;
/// The time before and after the cut, and before the end, in which nothing else goes wrong.
const QUIET: Duration = Duration::from_secs(120);

enum Event {
    ToHead(u32, Frame),
    ToHost(u32, Frame),
    /// The timer of a host's agent.
    Timer(u32),
    /// A host's agent starts.
    Start(u32),
    /// A host's agent dials, and dials again until it is welcomed.
    Dial(u32, u64),
    Kill(u32),
    /// The head dials the address of a dead agent.
    Refused(u32, u64),
    KillWorker(u32),
    StandStill(u32, Duration),
    MoveOn(u32),
    Cut(bool),
    Beat,
    Flush,
    /// The head looks for silent members.
    Look,
}

/// An event that is to happen. The first one is the greatest, because the queue gives out the greatest.
struct Planned {
    at: Duration,
    number: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

struct World {
    setting: MemberSetting,
    random: Random,
    now: Duration,
    queue: BinaryHeap<Planned>,
    last: u64,
    head: Head,
    hosts: Vec<Host>,
    /// The host of each agent.
    host_of: BTreeMap<ProcessId, u32>,
    /// The moment for which each host's timer is set.
    timers: Vec<Option<Duration>>,
    /// The moments at which workers were killed that nobody has declared dead yet.
    killed: BTreeMap<Peer, Duration>,
    cut_ended: Option<Duration>,
    report: MemberReport,
}

/// Runs a cluster. A seed decides everything.
pub fn run(setting: MemberSetting, seed: u64) -> MemberReport {
    let mut world = World {
        setting,
        random: Random::new(seed),
        now: Duration::ZERO,
        queue: BinaryHeap::new(),
        last: 0,
        head: Head::new(setting),
        hosts: (0..setting.hosts).map(|_| Host::default()).collect(),
        host_of: BTreeMap::new(),
        timers: vec![None; setting.hosts as usize],
        killed: BTreeMap::new(),
        cut_ended: None,
        report: MemberReport::default(),
    };
    world.plan();
    while let Some(Planned { at, event, .. }) = world.queue.pop()
        && at <= setting.time
    {
        world.now = at;
        world.perform(event);
    }
    world.conclude()
}

impl World {
    /// Plans the starts of the hosts, and all faults.
    fn plan(&mut self) {
        for host in 0..self.setting.hosts {
            let at = self.moment(Duration::ZERO, STARTS * 1000);
            self.at(at, Event::Start(host));
        }
        self.at(SECOND, Event::Beat);
        self.at(BUNDLE_TIME, Event::Flush);
        self.at(LOOK_TIME, Event::Look);
        let middle = self.setting.time / 2;
        if self.setting.cut_percent > 0 {
            self.at(middle, Event::Cut(true));
            self.at(middle + CUT_TIME, Event::Cut(false));
        }
        let setting = self.setting;
        for _ in 0..setting.kills {
            self.fault(Event::Kill);
        }
        for _ in 0..setting.worker_kills {
            self.fault(Event::KillWorker);
        }
        for _ in 0..setting.freezes {
            let time = self.moment(15 * SECOND, 15_000);
            self.fault(|host| Event::StandStill(host, time));
        }
        for _ in 0..setting.pauses {
            let time = self.moment(SECOND / 10, 3_800);
            self.fault(|host| Event::StandStill(host, time));
        }
    }

    /// Plans a fault of some host at some moment, in the first or the second half of the run.
    fn fault(&mut self, event: impl FnOnce(u32) -> Event) {
        let host = self.random.below(u64::from(self.setting.hosts)) as u32;
        let half = self.setting.time / 2;
        let room = half.saturating_sub(2 * QUIET + CUT_TIME).as_millis() as u64;
        let begin = match self.random.happens(500) {
            true => QUIET,
            false => half + CUT_TIME + QUIET,
        };
        let at = self.moment(begin, room);
        self.at(at, event(host));
    }

    fn moment(&mut self, begin: Duration, millis: u64) -> Duration {
        begin + Duration::from_millis(self.random.below(millis.max(1)))
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.last += 1;
        let number = self.last;
        self.queue.push(Planned { at, number, event });
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.at(self.now + time, event);
    }

    fn perform(&mut self, event: Event) {
        match event {
            Event::ToHead(host, frame) => {
                if !self.is_cut(host) {
                    self.report.head_frames.1 += 1;
                    let frames = self.head.receive(self.now, host, frame);
                    self.send_from_head(frames.into_iter().map(|frame| (host, frame)).collect());
                }
            }
            Event::ToHost(host, frame) => self.arrive(host, frame),
            Event::Timer(host) => self.timer(host),
            Event::Start(host) => self.start(host),
            Event::Dial(host, start) => self.dial(host, start),
            Event::Kill(host) => self.kill(host),
            Event::Refused(host, start) => {
                if self.host(host).is_some_and(|it| it.start == start) && !self.is_cut(host) {
                    self.head.refused(host);
                }
            }
            Event::KillWorker(host) => self.kill_worker(host),
            Event::StandStill(host, time) => self.stand_still(host, time),
            Event::MoveOn(host) => {
                let now = self.now;
                if let Some(it) = self.host(host)
                    && it.still_until <= now
                    && it.runs
                    && !it.is_cut
                {
                    it.mute_since = None;
                }
            }
            Event::Cut(begins) => self.cut(begins),
            Event::Beat => {
                let frames = self.head.heartbeats();
                self.send_from_head(frames);
                self.after(self.setting.times.heartbeat, Event::Beat);
            }
            Event::Flush => {
                let frames = self.head.flush(self.now);
                self.send_from_head(frames);
                self.look_for_agreement();
                self.after(BUNDLE_TIME, Event::Flush);
            }
            Event::Look => {
                self.head.tick(self.now);
                self.after(LOOK_TIME, Event::Look);
            }
        }
        self.judge();
    }

    fn host(&mut self, host: u32) -> Option<&mut Host> {
        self.hosts.get_mut(host as usize)
    }

    fn is_cut(&self, host: u32) -> bool {
        self.hosts.get(host as usize).is_none_or(|host| host.is_cut)
    }

    fn send_from_head(&mut self, frames: Vec<(u32, Frame)>) {
        for (host, frame) in frames {
            self.report.head_frames.0 += 1;
            for _ in 0..self.setting.copies(&mut self.random) {
                let delay = self.setting.delay(host, &mut self.random);
                self.after(delay, Event::ToHost(host, frame.clone()));
            }
        }
    }

    fn send_to_head(&mut self, host: u32, frame: &Frame) {
        for _ in 0..self.setting.copies(&mut self.random) {
            let delay = self.setting.delay(host, &mut self.random);
            self.after(delay, Event::ToHead(host, frame.clone()));
        }
    }

    /// The end of the time for which a host stands still, if it does.
    fn still_until(&self, host: u32) -> Option<Duration> {
        let until = self.hosts.get(host as usize)?.still_until;
        (until > self.now).then_some(until)
    }

    fn arrive(&mut self, host: u32, frame: Frame) {
        if self.is_cut(host) {
            return;
        }
        if let Some(until) = self.still_until(host) {
            return self.at(until, Event::ToHost(host, frame));
        }
        let (clock, times) = (MemberSetting::clock(host, self.now), self.setting.times);
        let Some(it) = self.host(host).filter(|it| it.runs) else {
            return;
        };
        match frame {
            Frame::Welcome(start, welcome) if start == it.start && it.member.is_none() => {
                it.process = Some(welcome.you.process);
                it.workers.clone_from(&welcome.workers);
                it.member = Some(Member::new(clock, &welcome, HEAD, times));
                self.host_of.insert(welcome.you.process, host);
            }
            Frame::Packet(me, packet) => {
                let Some(member) = it.member.as_mut().filter(|member| member.me == me) else {
                    return;
                };
                if member.receive(clock, packet).is_none() {
                    self.violate(format!("host {host} refuses what the head has sent"));
                }
            }
            // It ends, and is started again.
            Frame::Buried(me) if it.member.as_ref().is_some_and(|member| member.me == me) => {
                return self.restart(host);
            }
            _ => {}
        }
        self.arm(host);
    }

    fn timer(&mut self, host: u32) {
        if let Some(until) = self.still_until(host) {
            return self.at(until, Event::Timer(host));
        }
        let now = self.now;
        let is_due = |at: &mut Option<Duration>| at.take_if(|at| *at <= now).is_some();
        if !self.timers.get_mut(host as usize).is_some_and(is_due) {
            return;
        }
        let clock = MemberSetting::clock(host, now);
        let Some(member) = self.host(host).and_then(|it| it.member.as_mut()) else {
            return;
        };
        let me = member.me;
        match member.tick(clock) {
            Some(packets) => {
                for packet in packets {
                    self.send_to_head(host, &Frame::Packet(me, packet));
                }
                self.arm(host);
            }
            None => {
                self.report.orphans += 1;
                self.restart(host);
            }
        }
    }

    /// Sets the timer of a host for what is due first.
    fn arm(&mut self, host: u32) {
        let now = self.now;
        let clock = MemberSetting::clock(host, now);
        let Some(member) = self.host(host).and_then(|it| it.member.as_ref()) else {
            return;
        };
        let at = now
            + member
                .deadline()
                .saturating_sub(clock)
                .max(Duration::from_micros(1));
        let timer = self.timers.get_mut(host as usize);
        if let Some(timer) = timer.filter(|timer| timer.is_none_or(|set| at < set)) {
            *timer = Some(at);
            self.at(at, Event::Timer(host));
        }
    }

    /// The agent of a host has ended, and is started again.
    fn restart(&mut self, host: u32) {
        if let Some(it) = self.host(host) {
            (it.member, it.runs) = (None, false);
        }
        self.after(START_TIME, Event::Start(host));
    }

    fn start(&mut self, host: u32) {
        let Some(it) = self.host(host).filter(|it| !it.runs) else {
            return;
        };
        it.runs = true;
        it.start += 1;
        let start = it.start;
        self.dial(host, start);
        self.after(Duration::ZERO, Event::MoveOn(host));
    }

    fn dial(&mut self, host: u32, start: u64) {
        if let Some(until) = self.still_until(host) {
            return self.at(until, Event::Dial(host, start));
        }
        let Some(it) = self
            .host(host)
            .filter(|it| it.runs && it.start == start && it.member.is_none())
        else {
            return;
        };
        let dial = Frame::Dial(it.process, start);
        self.send_to_head(host, &dial);
        self.after(SECOND, Event::Dial(host, start));
    }

    /// A host of which the head hears nothing from now on; `None` if it hears nothing already, or never has.
    fn mute(&mut self, host: u32) -> Option<&mut Host> {
        let now = self.now;
        let it = self.host(host)?;
        let is_heard = it.member.is_some() && it.mute_since.is_none();
        is_heard.then(|| {
            it.mute_since = Some(now);
            it
        })
    }

    fn kill(&mut self, host: u32) {
        let Some(it) = self.mute(host) else {
            return;
        };
        let start = it.start;
        let delay = self.setting.delay(host, &mut self.random) + self.setting.delay(host, &mut self.random);
        self.after(delay, Event::Refused(host, start));
        self.restart(host);
    }

    fn kill_worker(&mut self, host: u32) {
        let clock = MemberSetting::clock(host, self.now);
        let draw = self.random.draw() as usize;
        let Some(it) = self.host(host).filter(|it| it.mute_since.is_none()) else {
            return;
        };
        let place = draw.checked_rem(it.workers.len()).unwrap_or(0);
        let (Some(worker), Some(member)) = (it.workers.get_mut(place), &mut it.member) else {
            return;
        };
        let dead = *worker;
        worker.incarnation.0 += 1;
        let mut sent = Vec::new();
        for message in [Message::Ended(dead), Message::Start(dead.process)] {
            if let Ok((_, packet)) = member.session.send(clock, message, 1) {
                sent.extend(packet);
            }
        }
        let me = member.me;
        self.killed.insert(dead, self.now);
        for packet in sent {
            self.send_to_head(host, &Frame::Packet(me, packet));
        }
        self.arm(host);
    }

    fn stand_still(&mut self, host: u32, time: Duration) {
        let now = self.now;
        let Some(it) = self.mute(host) else {
            return;
        };
        it.still_until = now + time;
        self.after(time, Event::MoveOn(host));
    }

    fn cut(&mut self, begins: bool) {
        let now = self.now;
        let cut = u64::from(self.setting.hosts) * u64::from(self.setting.cut_percent) / 100;
        for it in self.hosts.iter_mut().take(cut as usize) {
            it.is_cut = begins;
            it.mute_since = begins.then_some(now);
        }
        if !begins {
            self.cut_ended = Some(now);
        }
    }

    /// Holds the head's burials against what has happened.
    fn judge(&mut self) {
        for (peer, why) in self.head.take_deaths() {
            if let Some(killed) = self.killed.remove(&peer) {
                self.report.worker_kills.push(self.now - killed);
            }
            let Some(host) = self.host_of.get(&peer.process) else {
                continue;
            };
            let mute_since = self.hosts.get(*host as usize).and_then(|host| host.mute_since);
            let mute = mute_since.map(|since| self.now - since);
            // Frames that were lost before count for the rest.
            let timeout = self.setting.times.silence_timeout;
            match (why, mute) {
                (WhyDead::Refused, Some(mute)) => self.report.kills.push(mute),
                (WhyDead::Silent(_), Some(mute)) if 2 * mute >= timeout => {
                    self.report.silences.push(mute);
                }
                (WhyDead::Silent(_) | WhyDead::Refused, _) => self.report.wrong_burials += 1,
                _ => {}
            }
        }
    }

    /// Whether every host's agent is a member that knows all members.
    fn is_agreed(&self) -> bool {
        let epoch = self.head.members.epoch();
        let knows = |host: &Host| {
            host.member
                .as_ref()
                .is_some_and(|member| member.view.epoch() == epoch)
        };
        self.head.is_settled() && self.hosts.iter().all(knows)
    }

    fn look_for_agreement(&mut self) {
        if let Some(ended) = self.cut_ended
            && self.report.convergence.is_none()
            && self.is_agreed()
        {
            self.report.convergence = Some(self.now - ended);
        }
    }

    fn violate(&mut self, what: String) {
        self.report.violations.push(what);
    }

    /// Holds all views against the head's table.
    fn conclude(mut self) -> MemberReport {
        let members: Vec<Peer> = self.head.members.members().collect();
        let mut wrong = Vec::new();
        for (host, it) in self.hosts.iter().enumerate() {
            match &it.member {
                Some(member) if member.view.members().eq(members.iter().copied()) => {}
                Some(_) => wrong.push(format!("host {host} knows other members than the head")),
                None => wrong.push(format!("host {host} is no member in the end")),
            }
        }
        let expected = 1 + self.setting.hosts as usize * (1 + self.setting.workers as usize);
        if members.len() != expected {
            wrong.push(format!("{} members and not {expected}", members.len()));
        }
        self.report.violations.extend(wrong);
        self.report.members = members.len();
        self.report.time = self.setting.time;
        self.report
    }
}
