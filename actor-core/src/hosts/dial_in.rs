//! Workers that somebody else starts, and that dial the driver.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::CookieSource;
use selvedge_cluster::manager::WorkerConfig;
use selvedge_cluster::net::TcpPort;

use super::door::Door;
use super::keys::WorkerInput;
use super::manager::ClusterManager;
use super::terms::{Terms, terms_getters, terms_setters};
use crate::BoxError;

/// The time that workers get to dial in, unless somebody says otherwise.
const WAIT: Duration = Duration::from_secs(60);

/// *Guests*: workers that somebody else starts, such as Kubernetes, a batch system, or a person at another machine, and that dial this
/// process. It listens at one port, so the workers may be behind NAT, and need not be reachable from here.
///
/// A guest is this program, of the same build, started by hand:
///
/// ```text
/// my_program --selvedge-worker --dial head:7447 --cookie-file train.invitation [--no-port] [--tls-input]
/// ```
///
/// The file is an [`Invitation`], or any file with the runtime's cookie in its first line; without the flag, the guest reads its
/// standard input. A guest listens for other workers at the address from which it reaches this process, or at that of `--bind-to`;
/// with `--no-port` it does not, and has links with workers that listen. Guests may be started before this process: for 60 s
/// (`SELVEDGE_WORKER_TIMEOUT_MS`) a guest looks up the name and dials again and again, after pauses that grow from 10 ms to 500 ms. It ends
/// at once, with an error, if it has another cookie or is of another build.
///
/// The links go over TCP, or under TLS. A transport of the user's own is refused.
///
/// ```no_run
/// # #[cfg(feature = "hosts")] {
/// # use selvedge_core as selvedge;
/// use selvedge::hosts::DialIn;
///
/// # fn main() -> Result<(), selvedge::BoxError> {
/// # let runtime = selvedge::Runtime::new();
/// let door = DialIn::listen("0.0.0.0:7447")?;
/// runtime.invitation(&door)?.save("train.invitation")?;
/// let workers = runtime.add(door.expect(8.try_into()?))?;
/// // Later, some more.
/// let more = runtime.add(door.expect(2.try_into()?))?;
/// # Ok(())
/// # }
/// # }
/// ```
///
/// A guest is used like any other worker, and differs in how it ends. It is no child of this process, so nobody sees how it ends, kills it,
/// or starts it again: the end of its link is its death ([`Exit::Fenced`](crate::Exit::Fenced)). A guest that is to end is asked to, and
/// its link is cut when its time is over; it is not let in again, and ends by itself. Actors with
/// [`restart`](crate::Spawn::restart) are refused there. Its output is its own. Under TLS the death of a process looks like a
/// broken connection, so it is known after 6 s.
///
/// A guest ends with its driver, unless that is a [head with a log](super::HeadOptions::log).
///
/// The port is open until all clones of this value are dropped and all its guests have ended, or the runtime ends.
#[derive(Clone)]
pub struct DialIn {
    door: Arc<Door>,
    count: NonZeroU16,
    wait: Duration,
    terms: Terms,
}

impl DialIn {
    /// Takes a port on which workers will be heard, such as `0.0.0.0:7447`. Port 0 stands for a free one. They wait there until a
    /// runtime adds them.
    ///
    /// # Errors
    /// The address is none of this host, or the port is taken.
    pub fn listen(address: impl ToSocketAddrs) -> io::Result<Self> {
        let mut found = address.to_socket_addrs()?;
        let address = found
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
        let port = TcpPort::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("{address} cannot be taken: {error}")))?;
        Ok(DialIn {
            door: Arc::new(Door::new(port)),
            count: NonZeroU16::MIN,
            wait: WAIT,
            terms: Terms::default(),
        })
    }

    /// The address, with the port that the system has chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// The last process that was refused at this port, and why; `None` if none was. A process that is refused is told little, because
    /// it may be a stranger.
    #[must_use]
    pub fn last_refusal(&self) -> Option<String> {
        self.door.refused()
    }

    /// A manager of this number of workers at the same port: [`Runtime::add`](crate::Runtime::add) waits for that many. By default 1.
    #[must_use]
    pub fn expect(&self, count: NonZeroU16) -> Self {
        DialIn {
            count,
            ..self.clone()
        }
    }

    /// Sets how long [`Runtime::add`](crate::Runtime::add) waits for all of them together: by default 60 s.
    #[must_use]
    pub fn within(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(super) fn door(&self) -> &Arc<Door> {
        &self.door
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }
}

impl fmt::Debug for DialIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialIn")
            .field("address", &self.address())
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

terms_setters!(DialIn);

impl ClusterManager for DialIn {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError> {
        for number in 1..=self.count.get() {
            out(WorkerConfig::default().ident(format!("guest {number}")));
        }
        Ok(())
    }

    terms_getters!();

    fn door(&self) -> Option<DialIn> {
        Some(self.clone())
    }
}

/// The cookie of a runtime, and the credentials of a worker behind it where its transport makes some
/// (`LinkTransport::tls`; the worker then has the flag `--tls-input`). Whoever has it can be a worker.
pub struct Invitation(pub(super) WorkerInput);

impl Invitation {
    /// Writes the invitation to a new file, which only its owner may read.
    ///
    /// # Errors
    /// There is a file of this name, or the system does not write it.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        CookieSource::create(path.as_ref(), self.0.bytes())
    }
}

impl AsRef<[u8]> for Invitation {
    /// The bytes, for the standard input of a worker.
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(..)")
    }
}
