//! Jobs and results: two remote channels at one process, and workers that take from one and put into the other, over
//! sessions on a lossy network, while workers die.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use selvedge_cluster::session::{Content, Packet, Session, SessionSettings};
use selvedge_objects::channel::{Answer, ChannelHome, ChannelSettings, ChannelUser, Outcome, Reply, Request};

use crate::faults::Setting;
use crate::process::peer;
use crate::random::{Random, mixed};

/// The process of both channels.
const HOME: usize = 0;
const FRAME_BYTES: usize = 100;
/// A run that is not at rest after this virtual time has a wait that does not end.
const LONGEST: Duration = Duration::from_secs(3600);

/// Which of the two channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Jobs,
    Results,
}

#[derive(Clone, Debug)]
enum Talk {
    Asks(Side, Request<u64>),
    Answers(Side, u64, Answer<u64>),
}

#[derive(Debug)]
enum Turn {
    Arrive(usize, Packet<Talk>),
    /// The session with this process has something to do.
    Wake(usize),
    /// The job is done.
    Done(u64),
    Die,
    /// The home learns of a death.
    Learn(usize),
}

#[derive(Debug)]
struct Worker {
    jobs: ChannelUser<u64>,
    results: ChannelUser<u64>,
    /// The request for the job that it has, or waits for.
    take: Option<u64>,
    is_alive: bool,
    has_ended: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// How often each job's result has arrived.
    pub results: BTreeMap<u64, u32>,
    /// Workers that have ended since all jobs were done.
    pub ended: usize,
    /// Workers that died.
    pub died: usize,
    /// Values and requests that are left at the home.
    pub left: usize,
}

struct Jobs {
    setting: Setting,
    random: Random,
    now: Duration,
    /// The home's ends first, then the workers' ends.
    sessions: BTreeMap<(usize, usize), Session<Talk>>,
    homes: [ChannelHome<u64>; 2],
    workers: Vec<Worker>,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    turns: BTreeMap<u64, (usize, Turn)>,
    scheduled: u64,
}

/// Runs a seed: `setting.refs` jobs, `setting.processes` workers, `setting.crashes` of which die.
pub fn run_jobs(setting: Setting, seed: u64) -> JobReport {
    let mut run = Jobs::new(setting, seed);
    run.begin();
    while let Some(Reverse((time, number))) = run.queue.pop() {
        if time > LONGEST {
            break;
        }
        run.now = time;
        if let Some((at, turn)) = run.turns.remove(&number) {
            run.happen(at, turn);
        }
    }
    run.finish()
}

impl Jobs {
    fn new(setting: Setting, seed: u64) -> Self {
        let home = |capacity| ChannelHome::new(ChannelSettings::with_capacity(capacity));
        let worker = |_| Worker {
            jobs: ChannelUser::new(peer(HOME)),
            results: ChannelUser::new(peer(HOME)),
            take: None,
            is_alive: true,
            has_ended: false,
        };
        Jobs {
            setting,
            random: Random::new(mixed(seed)),
            now: Duration::ZERO,
            sessions: BTreeMap::new(),
            homes: [home(setting.refs as usize), home(setting.refs as usize * 2)],
            workers: (0..setting.processes).map(worker).collect(),
            queue: BinaryHeap::new(),
            turns: BTreeMap::new(),
            scheduled: 0,
        }
    }

    fn schedule(&mut self, time: Duration, at: usize, turn: Turn) {
        self.scheduled += 1;
        self.queue.push(Reverse((time, self.scheduled)));
        self.turns.insert(self.scheduled, (at, turn));
    }

    fn later(&mut self, most_ms: u64) -> Duration {
        self.now + Duration::from_micros(self.random.below(most_ms * 1000))
    }

    fn begin(&mut self) {
        let mut feeder = ChannelUser::new(peer(HOME));
        let [jobs, _] = &mut self.homes;
        for job in 0..self.setting.refs {
            if let Ok((_, request)) = feeder.put(job) {
                jobs.request(peer(HOME), request);
            }
        }
        jobs.close();
        for at in 1..=self.workers.len() {
            self.ask_for_job(at);
            if at <= self.setting.crashes as usize {
                let time = self.later(3000);
                self.schedule(time, at, Turn::Die);
                let time = time + Duration::from_millis(500);
                self.schedule(time, HOME, Turn::Learn(at));
            }
        }
    }

    fn happen(&mut self, at: usize, turn: Turn) {
        let is_alive = at == HOME || self.worker(at).is_some_and(|it| it.is_alive);
        match turn {
            _ if !is_alive => {}
            Turn::Die => {
                if let Some(worker) = self.worker(at) {
                    worker.is_alive = false;
                }
            }
            Turn::Learn(dead) => {
                self.sessions.remove(&(HOME, dead));
                for side in [Side::Jobs, Side::Results] {
                    let replies = self.home(side).dead(peer(dead));
                    self.reply(side, replies);
                }
            }
            Turn::Done(job) => {
                let put = self.worker(at).and_then(|it| it.results.put(job).ok());
                if let Some((_, request)) = put {
                    self.send(at, HOME, Talk::Asks(Side::Results, request));
                }
            }
            Turn::Wake(with) => {
                let now = self.now;
                let session = self.sessions.get_mut(&(at, with));
                let packets = session.map(|it| it.tick(now)).unwrap_or_default();
                self.transmit(at, with, packets);
            }
            Turn::Arrive(from, packet) => self.arrive(at, from, packet),
        }
    }

    fn worker(&mut self, at: usize) -> Option<&mut Worker> {
        self.workers.get_mut(at.checked_sub(1)?)
    }

    fn home(&mut self, side: Side) -> &mut ChannelHome<u64> {
        let [jobs, results] = &mut self.homes;
        match side {
            Side::Jobs => jobs,
            Side::Results => results,
        }
    }

    /// Asks for the next job, which acknowledges the one before.
    fn ask_for_job(&mut self, at: usize) {
        let asked = self.worker(at).and_then(|it| {
            let (number, requests) = it.jobs.next(it.take).ok()?;
            it.take = Some(number);
            Some(requests)
        });
        for request in asked.unwrap_or_default() {
            self.send(at, HOME, Talk::Asks(Side::Jobs, request));
        }
    }

    fn reply(&mut self, side: Side, replies: Vec<Reply<u64>>) {
        for Reply { to, number, answer } in replies {
            let to = crate::process::index(to);
            self.send(HOME, to, Talk::Answers(side, number, answer));
        }
    }

    fn deliver(&mut self, at: usize, from: usize, talk: Talk) {
        match talk {
            Talk::Asks(side, request) => {
                let replies = self.home(side).request(peer(from), request);
                self.reply(side, replies);
            }
            Talk::Answers(side, number, answer) => {
                let outcome = self.worker(at).and_then(|worker| match side {
                    Side::Jobs => worker.jobs.answered(number, answer),
                    Side::Results => worker.results.answered(number, answer),
                });
                match outcome {
                    Some(Outcome::Value(job)) => {
                        let time = self.later(400);
                        self.schedule(time, at, Turn::Done(job));
                    }
                    Some(Outcome::Stored) => self.ask_for_job(at),
                    Some(Outcome::Failed(_)) => {
                        if let Some(worker) = self.worker(at) {
                            worker.has_ended = true;
                        }
                    }
                    Some(Outcome::Ready(_) | Outcome::NotPut(_)) | None => {}
                }
            }
        }
    }

    fn session(&mut self, at: usize, with: usize) -> &mut Session<Talk> {
        self.sessions.entry((at, with)).or_insert_with(|| {
            let mut session = Session::new(peer(at), peer(with), SessionSettings::default());
            let _nothing = session.connected(Duration::ZERO, peer(with));
            session
        })
    }

    fn send(&mut self, at: usize, to: usize, talk: Talk) {
        let now = self.now;
        if let Ok((_, packet)) = self.session(at, to).send(now, talk, FRAME_BYTES) {
            self.transmit(at, to, packet);
        }
    }

    fn arrive(&mut self, at: usize, from: usize, packet: Packet<Talk>) {
        let is_fenced = at == HOME
            && !self.sessions.contains_key(&(HOME, from))
            && self.worker(from).is_none_or(|it| !it.is_alive);
        if is_fenced {
            return;
        }
        let now = self.now;
        let bytes = match &packet.content {
            Content::Acknowledgement => 0,
            Content::Ordered(..) | Content::Loose(_) => FRAME_BYTES,
        };
        let received = self.session(at, from).received(now, packet, bytes);
        for talk in received.map(|it| it.messages).unwrap_or_default() {
            self.deliver(at, from, talk);
        }
        self.set_timer(at, from);
    }

    fn transmit(&mut self, at: usize, with: usize, packets: impl IntoIterator<Item = Packet<Talk>>) {
        for packet in packets {
            for delay in self.setting.delays(&mut self.random) {
                self.schedule(self.now + delay, with, Turn::Arrive(at, packet.clone()));
            }
        }
        self.set_timer(at, with);
    }

    fn set_timer(&mut self, at: usize, with: usize) {
        let due = self.sessions.get(&(at, with)).and_then(Session::deadline);
        if let Some(due) = due {
            self.schedule(due.max(self.now), at, Turn::Wake(with));
        }
    }

    fn finish(self) -> JobReport {
        let [jobs, results] = self.homes;
        let mut report = JobReport::default();
        for job in results.snapshot() {
            *report.results.entry(job).or_default() += 1;
        }
        report.ended = self.workers.iter().filter(|it| it.has_ended).count();
        report.died = self.workers.iter().filter(|it| !it.is_alive).count();
        let open = jobs.waiting() + results.waiting();
        report.left = jobs.len() + jobs.on_their_way() + results.on_their_way() + open;
        report
    }
}
