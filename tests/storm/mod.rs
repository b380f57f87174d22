//! A random graph of calls on several hosts, while processes of all hosts are killed and frozen, and spilled values damaged.
//!
//! The answer is right; a call runs again only if its run or its value was lost; a call that may not run again runs once at most, and what is
//! lost says why. [`ledger`] has the proof.
#![allow(dead_code, unreachable_pub)] // every binary uses a part of the module
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // a test may panic

mod calls;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Lost, Worker};

use crate::census::wait_until;
use crate::killing::Random;
use calls::{call_of, is_stored, mix, mix_once, mixed, value};
pub use ledger::Audit;
use ledger::Ledger;

/// The bytes of the store of each host: too few for the values that are read soon.
pub const STORE_BYTES: u64 = 12 << 20;
/// The processes of a host.
pub const OF_HOST: usize = 3;
/// The calls that are submitted for each kill, so that calls go on while processes die.
const CALLS_A_KILL: usize = 25;

/// The number of last calls whose values are read.
const RECENT: usize = 12;

/// The number of kills: `KILLS`.
pub fn kills() -> usize {
    let kills = std::env::var("KILLS").ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

/// The seed: `SEED`.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED").ok();
    seed.and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed)
}

/// What can be done to a process of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Kill,
    Freeze,
    Thaw,
}

/// The hosts of a storm.
pub trait Site {
    /// Starts processes on a host, and adds them as workers.
    fn start(&mut self, runtime: &Runtime, host: &'static str, count: usize) -> Vec<Worker>;
    /// Does something to a process, by its host and its pid there.
    fn strike(&mut self, host: &str, pid: u32, blow: Blow);
    /// Waits for the end of a process that was killed, or that finds itself dead.
    fn await_end(&mut self, host: &str, pid: u32);
    /// Damages what the store of one of these processes has spilled.
    fn damage(&mut self, host: &str, pids: &[u32]);
}

/// A process of a host.
struct Member {
    host: &'static str,
    pid: u32,
    worker: Worker,
}

impl Member {
    fn number(&self) -> u32 {
        self.worker.process().number()
    }
}

/// The reason for which a call may be lost.
#[derive(Clone, Copy)]
enum Frail {
    NotPure,
    Pinned(u32),
    NoRetries,
    /// A call that reads the value of another one.
    Reader,
}

/// A call that may be lost.
struct FrailCall {
    number: u64,
    value: Vec<u64>,
    call: Ref<Vec<u64>>,
    why: Frail,
}

/// A call that may run again.
struct PureCall {
    number: u64,
    /// The value follows from this.
    hash: u64,
    /// `None` once the reference is dropped.
    call: Option<Ref<Vec<u64>>>,
}

/// A storm.
pub struct Storm<'a, S> {
    runtime: &'a Runtime,
    site: S,
    hosts: &'static [&'static str],
    ledger: Ledger,
    random: Random,
    members: Vec<Member>,
    frozen: Vec<Member>,
    calls: Vec<PureCall>,
    ready: BTreeSet<u64>,
    frail: Vec<FrailCall>,
    numbers: u64,
}

impl PureCall {
    fn held(&self) -> &Ref<Vec<u64>> {
        self.call.as_ref().unwrap()
    }
}

impl<'a, S: Site> Storm<'a, S> {
    /// The pure calls whose references are held.
    fn held(&self) -> impl Iterator<Item = (&PureCall, &Ref<Vec<u64>>)> {
        self.calls
            .iter()
            .filter_map(|call| Some((call, call.call.as_ref()?)))
    }

    pub fn new(runtime: &'a Runtime, site: S, hosts: &'static [&'static str], ledger: PathBuf) -> Self {
        std::fs::write(&ledger, "").unwrap();
        let seed = seed();
        println!("SEED={seed} KILLS={}", kills());
        let mut storm = Storm {
            runtime,
            site,
            hosts,
            ledger: Ledger(ledger.into_os_string().into_string().unwrap()),
            random: Random(mixed(seed, 1, 0)),
            members: Vec::new(),
            frozen: Vec::new(),
            calls: Vec::new(),
            ready: BTreeSet::new(),
            frail: Vec::new(),
            numbers: 0,
        };
        for host in hosts {
            storm.start(host, OF_HOST);
        }
        storm
    }

    fn start(&mut self, host: &'static str, count: usize) {
        for worker in self.site.start(self.runtime, host, count) {
            self.ledger.joins(worker.process().number(), host);
            let pid = worker.pid().unwrap();
            self.members.push(Member { host, pid, worker });
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap()
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Submits a pure call that reads two recent values, so that the graph is deep as well as wide.
    fn submit(&mut self) {
        let (number, path) = (self.next_number(), self.ledger.0.clone());
        let known = self.calls.len();
        let made = match known {
            0 => None,
            _ => Some([0; 2].map(|_: u8| known - 1 - self.below(known.min(RECENT)))),
        };
        let (hash, call) = match made.map(|read| read.map(|at| &self.calls[at])) {
            None => (mixed(0, 0, number), mix::remote(&path, number, [0], [0])),
            Some([x, y]) => (
                mixed(mixed(x.hash, 0, 0), mixed(y.hash, 0, 0), number),
                mix::remote(&path, number, x.held(), y.held()),
            ),
        };
        let call = Some(self.runtime.submit(call));
        self.calls.push(PureCall { number, hash, call });
        // Nobody reads it any more, but values that are still needed were made of it.
        let old = known.checked_sub(RECENT).filter(|old| old % 3 == 0);
        if let Some(call) = old.map(|old| &mut self.calls[old]) {
            self.ledger.drops(call.number);
            call.call = None;
        }
    }

    /// Submits a call that may be lost, and one that reads its value.
    fn submit_frail(&mut self) {
        let (number, path) = (self.next_number(), self.ledger.0.clone());
        let at = self.calls.len() - 1 - self.below(self.calls.len().min(RECENT));
        let (hash, input) = (mixed(self.calls[at].hash, 0, 0), self.calls[at].held());
        let made = value(number, mixed(hash, hash, number));
        let (call, why) = match number % 3 {
            0 => (
                self.runtime.submit(mix_once::remote(&path, number, input, input)),
                Frail::NotPure,
            ),
            1 => {
                let at = mixed(number, 3, 0) as usize % self.members.len();
                let worker = &self.members[at].worker;
                let call = mix::remote(&path, number, input, input).on(worker);
                (
                    self.runtime.submit(call),
                    Frail::Pinned(worker.process().number()),
                )
            }
            _ => {
                let call = mix::remote(&path, number, input, input).retries(0);
                (self.runtime.submit(call), Frail::NoRetries)
            }
        };
        let reader = self.next_number();
        let hash = made[0];
        let reads = self.runtime.submit(mix::remote(&path, reader, &call, &call));
        self.frail.push(FrailCall {
            number,
            value: made,
            call,
            why,
        });
        self.frail.push(FrailCall {
            number: reader,
            value: value(reader, mixed(hash, hash, reader)),
            call: reads,
            why: Frail::Reader,
        });
    }

    /// Notes which values are there.
    fn note_ready(&mut self) {
        let is_new = |call: &PureCall| !self.ready.contains(&call.number);
        let held = self.held().filter(|(call, _)| is_new(call));
        let ready = held.filter(|(_, value)| value.is_ready().unwrap());
        let ready: Vec<u64> = ready.map(|(call, _)| call.number).collect();
        ready.iter().for_each(|number| self.ledger.ready(*number));
        self.ready.extend(ready);
    }

    /// A whole storm.
    ///
    /// # Panics
    /// Something is not as it should be.
    pub fn run(&mut self) {
        self.blow();
        self.settle();
        let frail = self.frail.len();
        let lost = self.check_frail();
        let of_host = self.lose_a_host();
        let audit = self.check();
        let (calls, stored) = (self.calls.len(), self.calls.iter());
        let stored = stored.filter(|call| is_stored(call.number)).count();
        println!(
            "{calls} calls, of which {stored} values lay in stores; {} runs again, {} in processes that counted as dead; {of_host} values \
             died with a host and were made again; {lost} of {frail} calls that may not run again, or read such a one, were lost",
            audit.again, audit.of_dead
        );
        self.drop_all();
    }

    /// Once nobody holds a value, nothing is left of the calls.
    fn drop_all(&mut self) {
        self.calls.clear();
        wait_until(&(0, Vec::new(), Vec::new()), || {
            let objects = self.runtime.objects();
            (self.runtime.references().owned, objects.objects, objects.listed)
        });
        wait_until(&Vec::new(), || self.runtime.calls());
    }

    /// Lets the storm blow: calls are submitted, and processes die.
    fn blow(&mut self) {
        for _ in 0..kills() {
            self.thaw();
            // Whoever replaces the victims is there before, so that they die while calls run.
            let victims = self.choose();
            for member in &victims {
                self.start(member.host, 1);
            }
            for at in 0..CALLS_A_KILL {
                self.submit();
                if at % 10 == 5 {
                    self.submit_frail();
                }
            }
            std::thread::sleep(Duration::from_millis(1 + self.random.below(40)));
            self.note_ready();
            match self.below(10) {
                0..7 => self.kill(victims),
                7..9 => self.freeze(victims),
                _ => {
                    self.damage(victims[0].host);
                    self.kill(victims);
                }
            }
            self.replace_gone();
        }
    }

    /// Takes out the next victims: all of a host, one that has the store of its host, one that has none, or one of each on two hosts.
    fn choose(&mut self) -> Vec<Member> {
        let first = self.below(self.hosts.len());
        let [host, other] = [0, 1].map(|at| self.hosts[(first + at) % self.hosts.len()]);
        match self.below(10) {
            0 => self
                .members
                .extract_if(.., |member| member.host == host)
                .collect(),
            1..4 => vec![self.choose_one(host, true)],
            4..7 => vec![self.choose_one(host, false)],
            _ => vec![self.choose_one(host, true), self.choose_one(other, false)],
        }
    }

    fn choose_one(&mut self, host: &str, is_agent: bool) -> Member {
        let agents = self.agents();
        let of_host = |member: &Member| member.host == host;
        let fits = |member: &Member| agents.contains(&member.number()) == is_agent;
        let fitting = self.members.iter().position(|it| of_host(it) && fits(it));
        let at = fitting.or_else(|| self.members.iter().position(of_host));
        self.members.remove(at.unwrap())
    }

    /// The processes of the runtime that have the stores of their hosts, as far as values lie there.
    fn agents(&self) -> BTreeSet<u32> {
        let listed = self.runtime.objects().listed;
        let agents = listed.iter().flat_map(|object| &object.agents);
        agents.map(|agent| agent.process.number()).collect()
    }

    fn kill(&mut self, members: Vec<Member>) {
        for member in &members {
            self.ledger.dies(member.number());
        }
        for member in &members {
            self.site.strike(member.host, member.pid, Blow::Kill);
        }
        for member in members {
            self.site.await_end(member.host, member.pid);
        }
    }

    /// Freezes processes until they count as dead, which [`Self::thaw`] sees.
    fn freeze(&mut self, members: Vec<Member>) {
        for member in &members {
            self.ledger.dies(member.number());
            self.site.strike(member.host, member.pid, Blow::Freeze);
        }
        self.frozen.extend(members);
    }

    /// Those that count as dead go on, and find that they are dead.
    fn thaw(&mut self) {
        let living = self.living();
        let buried = self
            .frozen
            .extract_if(.., |member| !living.contains(&member.number()));
        for member in buried.collect::<Vec<_>>() {
            self.site.strike(member.host, member.pid, Blow::Thaw);
            self.site.await_end(member.host, member.pid);
        }
    }

    /// Damages what the store of a host has spilled.
    fn damage(&mut self, host: &str) {
        self.ledger.damage(host);
        let of_host = self.members.iter().filter(|member| member.host == host);
        let pids: Vec<u32> = of_host.map(|member| member.pid).collect();
        self.site.damage(host, &pids);
    }

    fn living(&self) -> BTreeSet<u32> {
        let workers = self.runtime.workers().into_iter();
        workers.map(|worker| worker.process().number()).collect()
    }

    /// Replaces those that this machine gave no time.
    fn replace_gone(&mut self) {
        let living = self.living();
        let gone = self
            .members
            .extract_if(.., |member| !living.contains(&member.number()));
        for member in gone.collect::<Vec<_>>() {
            println!("process {} got no time, and counts as dead", member.number());
            self.ledger.gone(member.number());
            self.site.strike(member.host, member.pid, Blow::Kill);
            self.site.await_end(member.host, member.pid);
            self.start(member.host, 1);
        }
    }

    /// All calls have ended.
    fn settle(&mut self) {
        for (PureCall { number, .. }, value) in self.held() {
            let ready = value.ready();
            ready.unwrap_or_else(|error| panic!("call {number}: {error}"));
        }
        for frail in &self.frail {
            let _ = frail.call.ready();
        }
        wait_until(&true, || {
            self.thaw();
            self.frozen.is_empty()
        });
        self.replace_gone();
        self.note_ready();
    }

    /// Calls that may be lost have run once at most, and say why they are.
    fn check_frail(&mut self) -> usize {
        let audit = self.ledger.audit();
        let mut lost = 0;
        let mut before: Option<String> = None;
        for frail in &self.frail {
            let number = frail.number;
            let runs = audit.runs(number);
            let error = match frail.call.fetch() {
                Ok(made) => {
                    assert!(*made == frail.value, "call {number}: a wrong value");
                    before = None;
                    assert!(runs == 1 || matches!(frail.why, Frail::Reader), "{number}");
                    continue;
                }
                Err(error) => error,
            };
            lost += 1;
            let why: Option<&Lost> = error.downcast_ref();
            let why = why.unwrap_or_else(|| panic!("call {number}: {error}"));
            let dead = |process: u32| audit.is_dead(process);
            let is_right = match (frail.why, why) {
                (
                    Frail::NotPure,
                    Lost::NotPure {
                        loss: selvedge::Loss::Death { process, .. },
                    },
                ) => dead(process.number()),
                (
                    Frail::Pinned(to),
                    Lost::Pinned {
                        process,
                        loss:
                            selvedge::Loss::Death { process: died, .. }
                            | selvedge::Loss::DeathBefore { process: died, .. },
                    },
                ) => process == died && process.number() == to && dead(to),
                (Frail::NoRetries, Lost::RetriesSpent { attempts, deaths }) => (*attempts, *deaths) == (1, 1),
                (Frail::Reader, why) => before == Some(why.to_string()),
                _ => false,
            };
            assert!(is_right, "call {number}: {error}");
            let may_run = usize::from(!matches!(frail.why, Frail::Reader));
            assert!(runs <= may_run, "call {number} has run {runs} times");
            before = Some(why.to_string());
        }
        self.frail.clear();
        lost
    }

    /// The calls whose values lie in stores that others know, and the agents that have copies.
    fn copies(&self) -> BTreeMap<u64, Vec<u32>> {
        let listed = self.runtime.objects().listed.into_iter();
        let copies = listed.filter_map(|object| {
            let agents = object.agents.iter();
            let agents = agents.map(|agent| agent.process.number());
            Some((call_of(object.bytes)?, agents.collect()))
        });
        copies.collect()
    }

    /// A host dies when nothing runs: what had a copy there alone is made again, once, before somebody asks, and nothing else.
    fn lose_a_host(&mut self) -> usize {
        let (host, before) = (self.hosts[0], self.ledger.audit());
        let of_host = self.members.extract_if(.., |member| member.host == host);
        let of_host: Vec<Member> = of_host.collect();
        let numbers: BTreeSet<u32> = of_host.iter().map(Member::number).collect();
        let copies = self.copies();
        let is_lost = |call: u64| {
            let agents = copies.get(&call);
            agents.is_some_and(|agents| agents.iter().all(|agent| numbers.contains(agent)))
        };
        self.kill(of_host);
        wait_until(&true, || self.living().is_disjoint(&numbers));
        // Once the list has no copy of the dead it is known what is lost.
        wait_until(&true, || self.agents().is_disjoint(&numbers));
        self.settle();
        let after = self.ledger.audit();
        let mut lost = 0;
        for (PureCall { number, .. }, _) in self.held() {
            let again = after.runs(*number) - before.runs(*number);
            assert_eq!(
                again,
                usize::from(is_lost(*number)),
                "call {number}, whose value was at {:?} when {numbers:?} died",
                copies.get(number)
            );
            lost += again;
        }
        self.start(host, OF_HOST);
        lost
    }

    /// All values are right.
    fn check(&mut self) -> Audit {
        std::thread::scope(|scope| {
            for part in 0..4 {
                let calls = &self.calls;
                scope.spawn(move || {
                    for call in calls.iter().skip(part).step_by(4) {
                        let PureCall { number, hash, call } = call;
                        let Some(call) = call else { continue };
                        let made = call.fetch();
                        let made = made.unwrap_or_else(|error| panic!("call {number}: {error}"));
                        assert!(*made == value(*number, *hash), "call {number}: a wrong value");
                    }
                });
            }
        });
        let audit = self.ledger.audit();
        let listed: BTreeMap<_, u32> = (self.runtime.calls().iter())
            .map(|call| (call.value, call.attempts))
            .collect();
        for (PureCall { number, .. }, call) in self.held() {
            let attempts = listed[&call.id()] as usize;
            let runs = audit.runs(*number);
            assert!(
                runs <= attempts,
                "call {number}: {runs} runs in {attempts} attempts"
            );
        }
        audit
    }
}
