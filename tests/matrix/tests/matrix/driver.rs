//! A driver, as the test has it: orders and answers in lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use selvedge_test_hosts::{Host, Process};

/// The time after which a wait counts as one without end.
const LIMIT: Duration = Duration::from_secs(150);

pub(crate) struct Driver {
    pub(crate) process: Process,
    orders: ChildStdin,
    answers: Receiver<(Instant, String)>,
}

impl Driver {
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        host: &Host,
        socket: &Path,
        arguments: &[&str],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge-matrix"));
        command
            .args(arguments)
            .env("MATRIX_SOCKET", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = host.spawn(command).unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        // It ends with the driver, which ends with its host.
        scope.spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send((Instant::now(), line));
            }
        });
        Driver {
            orders: process.stdin.take().unwrap(),
            process,
            answers,
        }
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// The rest of the next line, which has to begin with this word, and the moment at which it came.
    pub(crate) fn hear(&self, word: &str) -> (Instant, String) {
        let heard = self.answers.recv_timeout(LIMIT);
        let (at, line) = heard.unwrap_or_else(|error| panic!("no line `{word}` has come: {error}"));
        match line.strip_prefix(word) {
            Some(rest) => (at, rest.trim().to_owned()),
            None => panic!("`{word}` was expected, and `{line}` came"),
        }
    }
}
