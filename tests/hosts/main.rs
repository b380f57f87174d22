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

mod deaths;
mod managers;
mod members;
mod ports;
mod refused;
mod resets;
mod ssh;
mod sshd;
mod topology;
mod workers;

use std::num::NonZeroU16;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use selvedge::hosts::LocalManager;
use selvedge::prelude::*;

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
