//! The wait of the one thread that leads, which does not exist here: there are no links.

use std::io;
use std::time::Duration;

/// The sockets that one wait reports at most.
pub(crate) const ARRIVALS_MAX: usize = 2;

/// The wait of the thread that leads.
pub(crate) enum LeadPoll {}

impl LeadPoll {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn ring(&self) {
        match *self {}
    }

    pub(crate) fn wait(&self, _: Option<Duration>, _: impl FnMut(u64)) -> io::Result<bool> {
        match *self {}
    }
}
