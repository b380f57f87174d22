//! What several tests need.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use selvedge_test_hosts::{Host, Hosts, Process};

/// The program that tests run on their hosts.
pub(crate) const PEER: &str = env!("CARGO_BIN_EXE_selvedge-test-peer");

/// Makes hosts, or says that the test is left out.
pub(crate) fn hosts(count: usize) -> Option<Hosts> {
    Hosts::or_left_out(count).unwrap()
}

/// The seed of the faults: 1, or that of the variable `SEED`.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    seed
}

/// Runs a program to its end, and returns what it has printed.
pub(crate) fn output(host: &Host, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = host.spawn(command).unwrap();
    let text = std::io::read_to_string(process.stdout.take().unwrap()).unwrap();
    process.wait().unwrap();
    text
}

/// Opens processes, by the pids that they have outside of hosts. One that has ended is left out.
pub(crate) fn pidfds(pids: &[u32]) -> Vec<OwnedFd> {
    let open = |pid: &u32| pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok();
    pids.iter().filter_map(open).collect()
}

/// Waits for the end of processes, and reaps those that have become children of this one. A process that lives for two minutes
/// fails the test, and is killed.
pub(crate) fn wait_for_ends(mut pidfds: Vec<OwnedFd>) {
    let limit = Timespec {
        tv_sec: 120,
        tv_nsec: 0,
    };
    while !pidfds.is_empty() {
        let mut watched: Vec<_> = pidfds
            .iter()
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        let has_come = poll(&mut watched, Some(&limit)).unwrap() > 0;
        let is_over: Vec<_> = watched
            .iter()
            .map(|watched| !watched.revents().is_empty())
            .collect();
        if !has_come {
            for pidfd in &pidfds {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
            panic!("{} processes have not ended", pidfds.len());
        }
        let mut is_over = is_over.into_iter();
        pidfds.retain(|pidfd| {
            let is_over = is_over.next().unwrap();
            if is_over {
                // An error means that it is another process's child, or nobody's.
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            }
            !is_over
        });
    }
}

/// A process that is told what to do, and says what happens to it, in lines.
pub(crate) struct Talker {
    pub(crate) process: Process,
    orders: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Talker {
    pub(crate) fn start(host: &Host, arguments: &[&str]) -> Self {
        let mut command = Command::new(PEER);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = host.spawn(command).unwrap();
        Talker {
            orders: process.stdin.take().unwrap(),
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            process,
        }
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// The next line.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.next().expect("the process has ended").unwrap()
    }

    /// Waits for the next line, which has to be this one.
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.hear(), line);
    }
}

/// Two processes with a link: one on `to`, which listens, and one on `from`, which has dialed.
pub(crate) fn linked(from: &Host, to: &Host) -> (Talker, Talker) {
    let mut listener = Talker::start(to, &["listen", &to.address().to_string()]);
    let line = listener.hear();
    let address = line.strip_prefix("at ").expect(&line);
    let mut dialer = Talker::start(from, &["dial", address]);
    listener.expect("linked");
    dialer.expect("linked");
    (dialer, listener)
}
