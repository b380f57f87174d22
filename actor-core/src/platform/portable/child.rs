//! Child processes, of which there are none.

use std::io;

use crate::death::Exit;

/// A handle to a child process.
#[derive(Clone)]
pub(crate) struct ChildHandle(());

impl ChildHandle {
    /// Does nothing: there is no process.
    pub(crate) fn kill(&self) {}

    /// How the process ends, which none does.
    pub(crate) fn ends_by(&self, _: u32) -> Option<Exit> {
        None
    }

    /// Does nothing: there is no process.
    #[cfg(feature = "hosts")]
    pub(crate) fn quit(&self) {}

    /// Returns a handle that names no process.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        ChildHandle(())
    }
}

/// A child that is not watched yet, which does not exist here.
pub(crate) enum Unwatched {}

impl Unwatched {
    /// Returns the child.
    pub(crate) fn watch(&mut self) -> Option<ChildHandle> {
        match *self {}
    }
}

/// A child process that is watched, which does not exist here.
pub(crate) enum Process {}

impl Process {
    /// Refuses to watch a child.
    pub(crate) fn new(_: &ChildHandle) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn kill(&self) {
        match *self {}
    }

    pub(crate) fn watch_sentinels(&mut self, _: u32, _: &[u32]) {
        match *self {}
    }

    pub(crate) async fn exited(&self) {
        match *self {}
    }

    pub(crate) fn ends_by(&self, _: u32) -> Option<Exit> {
        match *self {}
    }

    pub(crate) async fn reap(&self) -> Exit {
        match *self {}
    }
}
