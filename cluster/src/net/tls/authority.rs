//! The authority of the cluster, as a dialer asks it about the certificate of a listener.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The names that the certificate of a process that is dialled may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerNames {
    /// The host that was dialled, by name or address: `node3.lab` or `10.0.0.3`. A member that has taken another's address
    /// is refused.
    #[default]
    Dialed,
    /// Any: the certificate is signed by the cluster's authority, and that suffices. For processes that have no stable
    /// names, or are dialled by the entry of a tunnel. The authority has to sign for the cluster alone.
    Any,
}

/// The certificates that may sign, and the names that they may sign for.
#[derive(Debug)]
pub(super) struct Authority {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    names: PeerNames,
}

impl Authority {
    pub(super) fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider, names: PeerNames) -> Self {
        Authority {
            roots,
            algorithms: provider.signature_verification_algorithms,
            names,
        }
    }
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let (roots, algorithms) = (&self.roots, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        match self.names {
            PeerNames::Dialed => verify_server_name(&certificate, name)?,
            PeerNames::Any => (),
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
