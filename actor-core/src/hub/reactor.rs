//! The reactor of a worker's links: a thread of its own, because the worker's main thread runs code of users that may take
//! long.

use std::future::{Future, pending};
use std::io;
use std::thread::{self, JoinHandle};

use crate::boxed::boxed_run;
use tokio::runtime::{Builder, Handle};

/// Starts the thread, which ends with the process.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(crate) fn start_reactor() -> io::Result<Handle> {
    Ok(start_reactor_until(pending(), ())?.0)
}

/// Starts a thread as [`start_reactor`] does, which ends with this future, and then drops `ended`. It waits for nothing that blocks, such as
/// the lookup of a name.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(crate) fn start_reactor_until(
    end: impl Future<Output = ()> + Send + 'static,
    ended: impl Send + 'static,
) -> io::Result<(Handle, JoinHandle<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let reactor = runtime.handle().clone();
    let thread = thread::Builder::new()
        .name("selvedge-hub".to_owned())
        .spawn(boxed_run(move || {
            runtime.block_on(end);
            runtime.shutdown_background();
            drop(ended);
        }))?;
    Ok((reactor, thread))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::mpsc;
    use std::time::Duration;

    use crossbeam_channel::{RecvTimeoutError, bounded};

    use super::*;

    #[test]
    fn a_lookup_that_does_not_return_holds_up_no_end() {
        let (alive, gone) = bounded::<Infallible>(0);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let end_of_thread = async {
            let _ = ended.await;
        };
        let (reactor, _thread) = start_reactor_until(end_of_thread, alive).unwrap();
        let (returns, lookup) = mpsc::channel::<()>();
        reactor.spawn_blocking(move || lookup.recv());
        drop(end);
        let waited = gone.recv_timeout(Duration::from_secs(30));
        assert_eq!(waited, Err(RecvTimeoutError::Disconnected));
        drop(returns);
    }
}
