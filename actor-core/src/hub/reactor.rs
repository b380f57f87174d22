//! The reactor of a worker's links: a thread of its own, because the worker's main thread runs code of users that may take
//! long.

use std::future::{Future, pending};
use std::io;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};

/// Starts the thread, which ends with the process.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(crate) fn start_reactor() -> io::Result<Handle> {
    Ok(start_reactor_until(pending())?.0)
}

/// Starts a thread as [`start_reactor`] does, which ends with this future.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(crate) fn start_reactor_until(
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<(Handle, JoinHandle<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let reactor = runtime.handle().clone();
    let thread = thread::Builder::new()
        .name("selvedge-hub".to_owned())
        .spawn(move || runtime.block_on(end))?;
    Ok((reactor, thread))
}
