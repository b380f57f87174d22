//! TLS over any transport.

mod authority;
mod credentials;
mod credentials_error;
mod error;
mod halves;
mod issuer;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

pub use authority::PeerNames;
pub use credentials::Credentials;
pub use credentials_error::CredentialsError;
pub use error::TlsError;
pub use issuer::{CredentialTexts, Issuer, SecretText};

use self::authority::Authority;
use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

/// Streams over another transport that nobody else can read or change: TLS 1.3, with a certificate on both sides.
///
/// Each process has [`Credentials`], and believes the processes whose certificates the authority of the cluster has signed.
/// The handshake of a link includes the exporter of its TLS session, so a process in the middle that ends two sessions is
/// refused, whatever certificates it has.
///
/// ```
/// use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
/// use selvedge_cluster::net::{Credentials, PeerNames, Tcp, Tls};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Once for the cluster: its authority.
/// let mut lab = CertificateParams::new([])?;
/// lab.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
/// let lab = CertifiedIssuer::self_signed(lab, KeyPair::generate()?)?;
/// // Once for each host: a key, and a certificate of the authority. `Credentials::read` takes them from files.
/// let key = KeyPair::generate()?;
/// let chain = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &lab)?;
/// let (chain, key) = (chain.pem(), key.serialize_pem());
///
/// let credentials = Credentials::parse(chain.as_bytes(), key.as_bytes(), lab.pem().as_bytes())?;
/// let transport = Tls::over(Tcp::loopback(), &credentials, PeerNames::Dialed)?;
/// # let _ = transport;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    name: String,
    inner: Arc<dyn Transport>,
    names: PeerNames,
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// TLS over the streams of another transport.
    ///
    /// # Errors
    /// [`CredentialsError::Unusable`]: the certificates are none that TLS can use.
    pub fn over(
        inner: impl Transport + 'static,
        credentials: &Credentials,
        names: PeerNames,
    ) -> Result<Self, CredentialsError> {
        let provider = Arc::new(ring::default_provider());
        Ok(Tls {
            name: format!("tls over {}", inner.name()),
            inner: Arc::new(inner),
            names,
            connector: Arc::new(dialing(&provider, credentials, names)?).into(),
            acceptor: Arc::new(listening(&provider, credentials)?).into(),
        })
    }

    async fn dial(&self, to: &PeerInfo) -> io::Result<Halves> {
        let name = self.expected(&to.connect_at)?;
        let inner = self.inner.connect(to).await?;
        let stream = self.connector.connect(name, halves::joined(inner)).await;
        halves::secured(TlsStream::Client(stream.map_err(error::of_handshake)?))
    }

    /// The name that the certificate at this place must have. No name is sent: whoever listens to the wire need not know it.
    fn expected(&self, connect_at: &str) -> io::Result<ServerName<'static>> {
        match self.names {
            PeerNames::Dialed => host(connect_at).ok_or_else(|| {
                let connect_at = connect_at.to_owned();
                io::Error::new(io::ErrorKind::InvalidInput, TlsError::NoName { connect_at })
            }),
            // Something has to stand here, and nobody looks at it.
            PeerNames::Any => Ok(IpAddr::from(Ipv4Addr::UNSPECIFIED).into()),
        }
    }

    async fn bind(&self) -> io::Result<Box<dyn Acceptor>> {
        Ok(Box::new(Secured {
            inner: self.inner.listen().await?,
            acceptor: self.acceptor.clone(),
        }))
    }
}

impl Transport for Tls {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(self.dial(to))
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(self.bind())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

struct Secured {
    inner: Box<dyn Acceptor>,
    acceptor: TlsAcceptor,
}

impl Acceptor for Secured {
    fn connect_at(&self) -> &str {
        self.inner.connect_at()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let Accepted { from, halves: inner } = ready!(self.inner.poll_accept(cx))?;
        let acceptor = self.acceptor.clone();
        let halves = Box::pin(async move {
            let stream = acceptor.accept(halves::joined(inner.await?)).await;
            halves::secured(TlsStream::Server(stream.map_err(error::of_handshake)?))
        });
        Poll::Ready(Ok(Accepted { from, halves }))
    }
}

/// The host of a place such as `node3.lab:4000`, `10.0.0.3:4000` or `[::1]:4000`.
fn host(connect_at: &str) -> Option<ServerName<'static>> {
    if let Ok(address) = connect_at.parse::<SocketAddr>() {
        return Some(address.ip().into());
    }
    let host = connect_at.rsplit_once(':').map_or(connect_at, |(host, _)| host);
    ServerName::try_from(host.to_owned()).ok()
}

fn dialing(
    provider: &Arc<CryptoProvider>,
    credentials: &Credentials,
    names: PeerNames,
) -> Result<ClientConfig, CredentialsError> {
    let authority = Authority::new(credentials.authority(), provider, names);
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
    let mut config = builder
        .map_err(CredentialsError::unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(authority))
        .with_client_cert_resolver(credentials.certified_key());
    config.enable_sni = false;
    // Each link has a session of its own: a fresh proof of both certificates, and nothing to keep.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn listening(
    provider: &Arc<CryptoProvider>,
    credentials: &Credentials,
) -> Result<ServerConfig, CredentialsError> {
    let authority = WebPkiClientVerifier::builder_with_provider(credentials.authority(), provider.clone());
    let authority = authority.build().map_err(CredentialsError::unusable)?;
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
    let mut config = builder
        .map_err(CredentialsError::unusable)?
        .with_client_cert_verifier(authority)
        .with_cert_resolver(credentials.certified_key());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
