//! What several tests need.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

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
