//! What workers do in tests that play hosts, and the command of a worker that is a part of a test.
#![allow(dead_code, unreachable_pub)] // every binary uses a part of the module

use selvedge::hosts::{Cookie, CookieSource, WorkerCommand};
use selvedge::prelude::*;

/// The command that runs an ignored part of this program, by its path.
pub fn part(path: &str) -> WorkerCommand {
    let program = std::env::current_exe().unwrap();
    let command = WorkerCommand::new(program.to_str().unwrap());
    let arguments = ["--exact", path, "--ignored", "--nocapture"];
    arguments.into_iter().fold(command, WorkerCommand::argument)
}

/// The cookie of the driver that has started this process.
pub fn cookie() -> Cookie {
    CookieSource::Stdin.read(&mut std::io::stdin()).unwrap()
}

#[remote]
pub fn pid() -> u32 {
    std::process::id()
}

/// Never returns.
#[remote]
pub fn forever() {
    loop {
        std::thread::park();
    }
}

/// Adds a number, and counts how often.
pub struct Adder {
    by: i64,
    count: u64,
}

#[actor]
impl Adder {
    pub fn new(by: i64) -> Self {
        Adder { by, count: 0 }
    }

    pub fn add(&mut self, x: i64) -> i64 {
        self.count += 1;
        x + self.by
    }

    pub fn sum(&mut self, x: i64, y: i64) -> i64 {
        x * 1000 + y
    }

    pub fn even(&mut self, x: i64) -> Result<i64> {
        match x % 2 {
            0 => Ok(x + self.by),
            _ => Err(format!("{x} is odd").into()),
        }
    }

    pub fn count(&mut self) -> u64 {
        self.count
    }
}
