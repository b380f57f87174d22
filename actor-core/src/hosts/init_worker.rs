//! Workers over a transport of the user's own.

use std::convert::Infallible;
use std::sync::Arc;

use selvedge_cluster::handshake::Cookie;
use selvedge_cluster::net::Transport;

use super::identity::Means;
use super::serve::{Entry, serve_over};
use super::watched_tcp::WatchedTcp;
use crate::flags;
use crate::platform;
use crate::runtime::is_any_made;

/// The reason that a process did not become a worker.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InitWorkerError {
    /// The command line has the flag of a worker over TCP.
    #[error(
        "`--selvedge-worker` begins a worker over TCP, and `init_worker` one over a transport of your own: leave out one of the two \
         (help: a manager with `LinkTransport::own` starts its commands without the flag)"
    )]
    HasFlag,
    /// The process has made a [`Runtime`](crate::Runtime).
    #[error(
        "the process has a `Runtime` already, so it is a driver: call `init_worker` before anything else of selvedge"
    )]
    TooLate,
    /// The standard input cannot be closed.
    #[error("the standard input cannot be closed")]
    Stdin,
}

selvedge_channels::debug_is_report!(InitWorkerError);

/// Makes this process a worker that is reached over a transport of the user's own, as a manager with
/// [`LinkTransport::own`](super::LinkTransport::own) has started it. Returns only if it cannot.
///
/// Call it in `main`, before anything else of selvedge, with the cookie of the driver: a manager's command gets it in the first
/// line of its standard input ([`CookieSource::Stdin`](super::CookieSource::Stdin)). The worker listens by
/// [`Transport::listen`], and announces its place on its standard output; the driver and other workers then connect there. Every
/// process of the runtime has a transport of the same kind.
///
/// ```no_run
/// # #[cfg(feature = "hosts")] {
/// # use selvedge_core as selvedge;
/// use selvedge::hosts::{CookieSource, Uds, init_worker};
///
/// fn main() -> Result<(), selvedge::BoxError> {
///     if std::env::args().any(|argument| argument == "worker") {
///         let cookie = CookieSource::Stdin.read(&mut std::io::stdin())?;
///         init_worker(cookie, Uds::within("/run/user/1000/train")?)?;
///     }
///     // The driver.
///     Ok(())
/// }
/// # }
/// ```
///
/// # Errors
/// [`InitWorkerError`]: the process is a driver, or another kind of worker.
pub fn init_worker(
    cookie: Cookie,
    transport: impl Transport + 'static,
) -> Result<Infallible, InitWorkerError> {
    if !matches!(flags::hosted_worker(), Ok(None)) {
        return Err(InitWorkerError::HasFlag);
    }
    if is_any_made() {
        return Err(InitWorkerError::TooLate);
    }
    platform::premain::begin_hosted();
    platform::premain::close_stdin().map_err(|_| InitWorkerError::Stdin)?;
    let transport = Arc::new(WatchedTcp(transport));
    serve_over(Means { cookie, transport }, Entry::Own)
}
