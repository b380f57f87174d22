//! Workers of other hosts, played on this one: each is started by a command, and reached over TCP.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[path = "../census/mod.rs"]
mod census;

mod broker;
mod deaths;
mod ends;
#[path = "../remote/gate.rs"]
mod gate;
mod graphs;
mod guests;
mod guests_ends;
mod heads;
mod interrupt;
mod jobs;
#[path = "../killing/mod.rs"]
mod killing;
mod losses;
mod managers;
mod members;
mod named;
mod names;
mod nested;
mod objects;
mod own;
#[path = "../played/mod.rs"]
mod played;
mod ports;
mod refused;
mod relay;
mod resets;
mod slow;
mod slurm;
#[path = "../spilled/mod.rs"]
mod spilled;
mod ssh;
mod sshd;
#[path = "../storm/mod.rs"]
mod storm;
#[cfg(feature = "tls")]
mod tls;
mod topology;
mod turns;
mod workers;

use std::num::NonZeroU16;
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;

pub use played::{forever, pid};

/// Held for writing by tests that count what this process has, and for reading by all others.
static RESOURCES: RwLock<()> = RwLock::new(());

pub fn beside_others() -> RwLockReadGuard<'static, ()> {
    RESOURCES.read().unwrap_or_else(PoisonError::into_inner)
}

pub fn alone() -> RwLockWriteGuard<'static, ()> {
    RESOURCES.write().unwrap_or_else(PoisonError::into_inner)
}

pub fn local(count: u16) -> LocalManager {
    LocalManager::workers(NonZeroU16::new(count).unwrap())
}

/// Workers that pass for those of other hosts: one worker for each name of a host.
pub struct Elsewhere(pub &'static [&'static str]);

impl ClusterManager for Elsewhere {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let mut hosts = self.0.iter();
        local(self.0.len().try_into()?).launch(&mut |mut config| {
            let command = config.command.take().unwrap();
            let host = hosts.next().unwrap();
            out(config.command(command.variable("SELVEDGE_HOST", *host)));
        })
    }
}

/// The command that runs an ignored part of a test in a process of its own, by its path.
pub fn part(path: &str) -> Command {
    let mut part = Command::new(std::env::current_exe().unwrap());
    part.args(["--exact", path, "--ignored", "--nocapture", "--test-threads=1"])
        .env("SELVEDGE_TEST_DRIVER", "1");
    part
}
