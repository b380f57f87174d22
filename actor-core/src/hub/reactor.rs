//! The reactor of a worker's links: a thread of its own, because the worker's main thread runs code of users that may take
//! long.

use std::future::pending;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// Starts the thread, which ends with the process.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(crate) fn start_reactor() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let reactor = runtime.handle().clone();
    thread::Builder::new()
        .name("selvedge-hub".to_owned())
        .spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(reactor)
}
