//! One cell of the matrix: a fault meets a load.

use std::fmt;
use std::time::{Duration, Instant};

use selvedge_test_hosts::{Hosts, SocketState};

use crate::driver::Driver;
use crate::sshd::Sshd;

/// The loads, in the order of the lines of a fault.
pub(crate) const LOADS: [&str; 7] = [
    "idle",
    "calls",
    "references",
    "actor",
    "channel",
    "graph",
    "collective",
];

/// A fault of the host of the first worker, host 1, or of its network.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Brings the fault about.
    pub(crate) begin: fn(&mut Scene<'_>),
    pub(crate) outcome: Outcome,
    /// Whether nobody can tell the driver's `ssh` of the end of host 1.
    pub(crate) is_dark: bool,
    /// The milliseconds for which the driver lets a worker be silent, and the worker its driver.
    pub(crate) silence_ms: [u64; 2],
    /// Whether cuts heal when the load has failed.
    pub(crate) heals_late: bool,
    /// The loads that it meets.
    pub(crate) loads: &'static [&'static str],
}

/// The outcome that a fault has to have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The load ends with an error that names the process.
    Error,
    /// The load goes on.
    Heals,
}

/// What a fault acts on.
pub(crate) struct Scene<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) sshd: &'a Sshd<'a>,
    pub(crate) driver: &'a mut Driver,
}

/// Lets a fault meet its loads, and prints a line for each.
pub(crate) fn meet(fault: &Fault, sample: &[&str]) {
    let all = std::env::var("MATRIX").is_ok_and(|which| which == "all");
    let loads = if all { fault.loads } else { sample };
    for load in loads {
        let Some(hosts) = Hosts::or_left_out(3).unwrap() else {
            return;
        };
        let seen = cell(fault, load, &hosts);
        // Past the capture of tests.
        let line = format!("matrix: {:<24} {load:<10} {seen}\n", fault.name);
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    }
}

/// What was seen.
struct Seen {
    after: Duration,
    text: String,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7} ms  {:.150}", self.after.as_millis(), self.text)
    }
}

fn cell(fault: &Fault, load: &str, hosts: &Hosts) -> Seen {
    std::thread::scope(|scope| {
        let sshd = Sshd::start(scope, hosts);
        let [silence, timeout] = fault.silence_ms.map(|ms| ms.to_string());
        let arguments = ["driver", load, silence.as_str(), timeout.as_str()];
        let mut driver = Driver::start(scope, hosts.host(0), &sshd.socket(), &arguments);
        driver.hear("ready");
        if fault.is_dark {
            sshd.go_dark();
        }
        let begun = Instant::now();
        (fault.begin)(&mut Scene {
            hosts,
            sshd: &sshd,
            driver: &mut driver,
        });
        let seen = match fault.outcome {
            Outcome::Error => {
                driver.tell("go on");
                let (at, text) = driver.hear("news");
                let after = at - begun;
                let [silence, _] = fault.silence_ms.map(Duration::from_millis);
                assert!(text.contains("process"), "an error names the process: {text}");
                assert!(fault.is_dark || after < silence / 2, "{text} after {after:?}");
                Seen { after, text }
            }
            Outcome::Heals => {
                driver.tell("steps 20");
                let (_, text) = driver.hear("steps");
                let (count, longest) = text.split_once(' ').unwrap();
                Seen {
                    after: Duration::from_millis(longest.parse().unwrap()),
                    text: format!("no error; the longest of {count} steps"),
                }
            }
        };
        driver.tell("end");
        driver.hear("second well");
        assert_eq!(driver.hear("left").1, "nothing", "in the driver");
        assert!(driver.process.wait().unwrap().success());
        if fault.heals_late {
            hosts.heal_all();
        }
        nothing_is_left(hosts, &sshd, &[1, 2]);
        seen
    })
}

/// Waits for the ends of the workers on these hosts, and looks at what all hosts have.
pub(crate) fn nothing_is_left(hosts: &Hosts, sshd: &Sshd<'_>, workers: &[usize]) {
    for number in workers {
        // An error means that the host is dead already.
        let _ = hosts.host(*number).thaw();
        sshd.worker(*number).wait().unwrap();
    }
    hosts.heal_all();
    for host in hosts.all() {
        let processes = host.processes().unwrap_or_default();
        assert!(
            processes.iter().all(|process| process.pid == 1),
            "{host:?}: {processes:?}"
        );
        let sockets = host.sockets().unwrap();
        let is_open = |state| {
            matches!(
                state,
                SocketState::Established | SocketState::Listen | SocketState::CloseWait
            )
        };
        assert!(
            !sockets.iter().any(|socket| is_open(socket.state)),
            "{host:?}: {sockets:?}"
        );
    }
}
