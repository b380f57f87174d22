//! The transport of the links between the processes of a runtime, as managers name it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use selvedge_cluster::handshake::Cookie;
#[cfg(feature = "tls")]
use selvedge_cluster::manager::TlsFiles;
use selvedge_cluster::manager::{WorkerLinks, WorkerTls};
#[cfg(feature = "tls")]
use selvedge_cluster::net::{CredentialTexts, Credentials, CredentialsError, Issuer, PeerNames, Tls};
use selvedge_cluster::net::{Tcp, TcpPort, Transport, Uds};

use super::keys::{Keys, WorkerInput};
use super::watched_tcp::WatchedTcp;
use crate::BoxError;
use crate::hub::notice::Secret;

/// The way in which the links between processes of a runtime go: over TCP, which others can read; under TLS; or over a transport
/// of the user's own. All managers of a runtime have one, so that nothing which is said under TLS is said in clear elsewhere.
///
/// ```
/// # #[cfg(feature = "tls")] {
/// # use selvedge_core as selvedge;
/// use selvedge::hosts::{LinkTransport, LocalManager};
///
/// # fn main() -> Result<(), selvedge::BoxError> {
/// // Certificates are made for this runtime, and given to its workers beside the cookie.
/// let manager = LocalManager::auto().transport(LinkTransport::tls()?);
/// # let _ = manager;
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct LinkTransport(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Tcp,
    #[cfg(feature = "tls")]
    Tls(Arc<TlsLinks>),
    Own(Arc<dyn Transport>),
}

/// The credentials of the driver, and the place where workers get theirs.
#[cfg(feature = "tls")]
struct TlsLinks {
    driver: Credentials,
    names: PeerNames,
    workers: TlsSource,
}

#[cfg(feature = "tls")]
enum TlsSource {
    Issued(Box<Issuer>),
    Files(TlsFiles),
}

impl LinkTransport {
    /// TCP, without encryption. The handshake of each link proves that both sides know the cookie.
    pub fn tcp() -> Self {
        Self::default()
    }

    /// TLS 1.3 over TCP. The driver makes an authority for its runtime, in its memory, and each worker gets a key and a certificate
    /// over its standard input, beside the cookie. Processes accept each other by these certificates, whatever names they have.
    ///
    /// # Errors
    /// The system gives no random numbers.
    #[cfg(feature = "tls")]
    pub fn tls() -> Result<Self, CredentialsError> {
        let issuer = Issuer::new()?;
        let driver = issuer.issue()?.credentials()?;
        Ok(Self::under_tls(
            driver,
            PeerNames::Any,
            TlsSource::Issued(Box::new(issuer)),
        ))
    }

    /// TLS 1.3 over TCP, with files in the format PEM: the chain of a process, its key, and the certificates of the authority. The
    /// driver reads them now, and each worker reads the files of these paths on its own host when it starts.
    ///
    /// [`PeerNames::Dialed`] wants each worker to have a certificate for the address where it listens; a worker behind a tunnel of
    /// `ssh` has none such.
    ///
    /// # Errors
    /// [`CredentialsError`].
    #[cfg(feature = "tls")]
    pub fn tls_files(
        chain: impl Into<String>,
        key: impl Into<String>,
        authority: impl Into<String>,
        names: PeerNames,
    ) -> Result<Self, CredentialsError> {
        let files = TlsFiles {
            chain: chain.into(),
            key: key.into(),
            authority: authority.into(),
            any_name: names == PeerNames::Any,
        };
        let driver = Credentials::read(&files.chain, &files.key, &files.authority)?;
        Ok(Self::under_tls(driver, names, TlsSource::Files(files)))
    }

    #[cfg(feature = "tls")]
    fn under_tls(driver: Credentials, names: PeerNames, workers: TlsSource) -> Self {
        LinkTransport(Kind::Tls(Arc::new(TlsLinks {
            driver,
            names,
            workers,
        })))
    }

    /// A transport of the user's own. The manager starts programs that make themselves workers by
    /// [`init_worker`](super::init_worker), over a transport that reaches this one.
    pub fn own(transport: impl Transport + 'static) -> Self {
        LinkTransport(Kind::Own(Arc::new(WatchedTcp(transport))))
    }

    /// Whether both are one transport: the same kind, and for TLS and the user's own the same object.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Tcp, Kind::Tcp) => true,
            #[cfg(feature = "tls")]
            (Kind::Tls(one), Kind::Tls(other)) => Arc::ptr_eq(one, other),
            (Kind::Own(one), Kind::Own(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether a worker is reached through a port of TCP, and so through a tunnel.
    pub(super) fn has_ports(&self) -> bool {
        !matches!(self.0, Kind::Own(_))
    }

    /// The transport by which the driver dials workers, through a tunnel that begins in this directory if there is one.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub(super) fn dialer(&self, tunnel: Option<&Uds>) -> Result<Arc<dyn Transport>, BoxError> {
        let direct = || -> Arc<dyn Transport> {
            match tunnel {
                Some(tunnel) => Arc::new(tunnel.clone()),
                None => Arc::new(dialing_tcp()),
            }
        };
        match &self.0 {
            Kind::Tcp => Ok(direct()),
            #[cfg(feature = "tls")]
            Kind::Tls(links) => {
                let TlsLinks { driver, names, .. } = &**links;
                Ok(match tunnel {
                    Some(tunnel) => Arc::new(Tls::over(tunnel.clone(), driver, *names)?),
                    None => Arc::new(Tls::over(dialing_tcp(), driver, *names)?),
                })
            }
            Kind::Own(own) => Ok(Arc::clone(own)),
        }
    }

    /// The transport by which the driver listens for workers that dial it; `None` if that is the user's own, which has no ports.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub(super) fn listener(&self, port: TcpPort) -> Result<Option<Arc<dyn Transport>>, BoxError> {
        let port = WatchedTcp(port);
        Ok(match &self.0 {
            Kind::Tcp => Some(Arc::new(port)),
            #[cfg(feature = "tls")]
            Kind::Tls(links) => Some(Arc::new(Tls::over(port, &links.driver, links.names)?)),
            Kind::Own(_) => None,
        })
    }

    /// The transport as a worker's command names it.
    pub(super) fn of_command(&self) -> WorkerLinks {
        match &self.0 {
            Kind::Tcp => WorkerLinks::Tcp,
            Kind::Own(_) => WorkerLinks::Own,
            #[cfg(feature = "tls")]
            Kind::Tls(links) => WorkerLinks::Tls(match &links.workers {
                TlsSource::Issued(_) => WorkerTls::Input,
                TlsSource::Files(files) => WorkerTls::Files(files.clone()),
            }),
        }
    }

    /// All that a worker reads from its standard input: the cookie, and its credentials if they are made for it.
    ///
    /// # Errors
    /// The credentials cannot be made.
    pub(super) fn input(&self, cookie: &Cookie) -> Result<WorkerInput, BoxError> {
        let input = WorkerInput::of(cookie);
        match &self.0 {
            #[cfg(feature = "tls")]
            Kind::Tls(links) => match &links.workers {
                TlsSource::Issued(issuer) => Ok(input.with(issuer.issue()?.to_bytes().as_ref())),
                TlsSource::Files(_) => Ok(input),
            },
            _ => Ok(input),
        }
    }

    /// All that a worker of this host needs to dial another one.
    ///
    /// # Errors
    /// The credentials cannot be made.
    pub(super) fn keys(&self, cookie: &Cookie) -> Result<Keys, BoxError> {
        Ok(match &self.0 {
            Kind::Own(own) => Keys::None {
                transport: own.name().to_owned(),
            },
            _ => Keys::Of {
                input: Secret(self.input(cookie)?.bytes().to_vec()),
                tls: match self.of_command() {
                    WorkerLinks::Tls(tls) => Some(tls),
                    WorkerLinks::Tcp | WorkerLinks::Own => None,
                },
            },
        })
    }
}

/// TCP that dials. The interface of a transport is for listening.
fn dialing_tcp() -> WatchedTcp<Tcp> {
    WatchedTcp(Tcp::loopback())
}

/// The transport of a worker that listens here, by its flags and by what is left of its standard input.
///
/// # Errors
/// A text: there are no credentials, or this build has no TLS.
pub(super) fn of_worker(
    address: SocketAddr,
    tls: Option<&WorkerTls>,
    input: &mut dyn std::io::Read,
) -> Result<Arc<dyn Transport>, String> {
    let tcp = WatchedTcp(Tcp::at(address));
    match tls {
        None => Ok(Arc::new(tcp)),
        #[cfg(feature = "tls")]
        Some(tls) => {
            let (credentials, names) = credentials(tls, input)?;
            let transport = Tls::over(tcp, &credentials, names);
            Ok(Arc::new(transport.map_err(|error| error.to_string())?))
        }
        #[cfg(not(feature = "tls"))]
        Some(_) => {
            let _ = input;
            Err("the driver wants TLS, and this program lacks selvedge's feature `tls`".to_owned())
        }
    }
}

#[cfg(feature = "tls")]
fn credentials(tls: &WorkerTls, input: &mut dyn std::io::Read) -> Result<(Credentials, PeerNames), String> {
    let (credentials, any_name) = match tls {
        WorkerTls::Input => {
            let texts = CredentialTexts::read(input);
            let texts = texts.map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    "there are no credentials behind the cookie, as `--tls-input` wants them: \
only the invitation of a door under `LinkTransport::tls` has some"
                        .to_owned()
                }
                _ => format!("the credentials of this worker: {error}"),
            })?;
            (texts.credentials(), true)
        }
        WorkerTls::Files(files) => {
            let read = Credentials::read(&files.chain, &files.key, &files.authority);
            (read, files.any_name)
        }
    };
    let names = if any_name {
        PeerNames::Any
    } else {
        PeerNames::Dialed
    };
    credentials
        .map(|credentials| (credentials, names))
        .map_err(|error| error.to_string())
}

impl fmt::Display for LinkTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tcp => f.write_str("tcp"),
            #[cfg(feature = "tls")]
            Kind::Tls(_) => f.write_str("tls over tcp"),
            Kind::Own(own) => f.write_str(own.name()),
        }
    }
}

impl fmt::Debug for LinkTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkTransport({self})")
    }
}
