//! The ledger of a storm: a file in which each run of a call and each fault is a line, in the order in which they happened.
//!
//! | line | meaning |
//! |---|---|
//! | `begins CALL PROCESS` | a run of a call begins |
//! | `ready CALL` | the value of a call is there |
//! | `drops CALL` | the last reference to a value is about to be dropped |
//! | `joins PROCESS HOST` | a process is there |
//! | `dies PROCESS` | a process is about to be killed, or frozen until it counts as dead |
//! | `gone PROCESS` | a process counts as dead, since this machine gave it no time; nobody knows since when |
//! | `damage HOST` | what the store of a host has spilled is about to be damaged |

use std::collections::{BTreeMap, BTreeSet};

use super::calls::{is_stored, note};

/// The last run of a call, and all of them.
#[derive(Default)]
struct CallRuns {
    count: usize,
    process: u32,
    is_ready: bool,
    /// Whether the value may be gone since nobody holds it, and is made again when one that was made of it is.
    is_dropped: bool,
    /// Whether something has happened by which the run or its value may be lost.
    may_run: bool,
}

/// The runs of the calls of a storm, as its ledger says.
#[derive(Default)]
pub struct Audit {
    calls: BTreeMap<u64, CallRuns>,
    hosts: BTreeMap<u32, String>,
    dead: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    /// The runs that began after a loss.
    pub again: usize,
    /// The runs that began in a process that counts as dead.
    pub of_dead: usize,
}

impl Audit {
    /// Reads a ledger.
    ///
    /// # Panics
    /// A call ran again although neither its run nor its value can have been lost since it ran last.
    pub fn of(lines: &str) -> Audit {
        let mut audit = Audit::default();
        let lines = lines.lines().map(|line| line.split(' ').collect());
        let lines: Vec<Vec<&str>> = lines.collect();
        let gone = lines.iter().filter(|words| words[0] == "gone");
        audit.gone = gone.map(|words| words[1].parse().unwrap()).collect();
        for words in lines {
            let number = || words[1].parse::<u64>().unwrap();
            match words[0] {
                "gone" => {}
                "begins" => audit.begins(number(), words[2].parse().unwrap()),
                "ready" => audit.calls.entry(number()).or_default().is_ready = true,
                "drops" => audit.calls.entry(number()).or_default().is_dropped = true,
                "joins" => {
                    let process = number().try_into().unwrap();
                    audit.hosts.insert(process, words[2].to_owned());
                }
                "dies" => audit.dies(number().try_into().unwrap()),
                "damage" => audit.damaged(words[1]),
                other => panic!("no such line: {other}"),
            }
        }
        audit
    }

    fn begins(&mut self, call: u64, process: u32) {
        let runs = self.calls.entry(call).or_default();
        runs.count += 1;
        let host = self.hosts.get(&runs.process);
        runs.may_run |= self.gone.iter().any(|gone| self.hosts.get(gone) == host);
        if self.dead.contains(&process) {
            // Whether the others know of it or not, the process is as good as dead, and so is the run.
            self.of_dead += 1;
            runs.may_run = true;
            return;
        }
        assert!(
            runs.process == 0 || runs.may_run || runs.is_dropped,
            "call {call} has run at process {}, and again at process {process}, and nothing was lost in between",
            runs.process
        );
        self.again += usize::from(runs.process != 0);
        (runs.process, runs.is_ready, runs.may_run) = (process, false, false);
    }

    fn dies(&mut self, process: u32) {
        self.dead.insert(process);
        let host = self.hosts.get(&process).cloned();
        for runs in self.calls.values_mut() {
            runs.may_run |= runs.process == process && !runs.is_ready;
        }
        // The process may have had the store of its host.
        self.damaged(&host.unwrap());
    }

    fn damaged(&mut self, host: &str) {
        for (call, runs) in &mut self.calls {
            let lies_there = self.hosts.get(&runs.process).is_some_and(|at| *at == host);
            runs.may_run |= is_stored(*call) && lies_there;
        }
    }

    /// The number of runs of a call.
    pub fn runs(&self, call: u64) -> usize {
        self.calls.get(&call).map_or(0, |runs| runs.count)
    }

    /// Whether a process is dead.
    pub fn is_dead(&self, process: u32) -> bool {
        self.dead.contains(&process) || self.gone.contains(&process)
    }
}

/// The file of a ledger.
pub struct Ledger(pub String);

impl Ledger {
    pub fn ready(&self, call: u64) {
        note(&self.0, &format!("ready {call}"));
    }

    pub fn drops(&self, call: u64) {
        note(&self.0, &format!("drops {call}"));
    }

    pub fn joins(&self, process: u32, host: &str) {
        note(&self.0, &format!("joins {process} {host}"));
    }

    pub fn dies(&self, process: u32) {
        note(&self.0, &format!("dies {process}"));
    }

    pub fn gone(&self, process: u32) {
        note(&self.0, &format!("gone {process}"));
    }

    pub fn damage(&self, host: &str) {
        note(&self.0, &format!("damage {host}"));
    }

    pub fn audit(&self) -> Audit {
        Audit::of(&std::fs::read_to_string(&self.0).unwrap())
    }
}
