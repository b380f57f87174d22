//! Watches on processes: there is no other process that shares memory with this one.

use crate::memory::deaths::{DeathCallback, NotWatched};
use crate::memory::process::Process;

/// A watch on a process, which does not exist here.
#[derive(Debug)]
pub enum Watch {}

/// Refuses to watch a process.
///
/// # Errors
/// [`NotWatched::System`], always.
pub fn watch(_: Process, _: DeathCallback) -> Result<Watch, NotWatched> {
    Err(NotWatched::System(std::io::ErrorKind::Unsupported.into()))
}
