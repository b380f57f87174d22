//! Errors of TLS.

use std::io;

use thiserror::Error;
use tokio_rustls::rustls::{self, CertificateError, InvalidMessage};

/// The reason why TLS refuses a stream.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate of the peer comes from elsewhere.
    #[error(
        "the authority of this cluster has not signed the peer's certificate: give both processes certificates of one authority, with all certificates between in the chain"
    )]
    UnknownIssuer,
    /// The certificate of the peer has expired.
    #[error("the peer's certificate has expired: renew it, or set the clock of this host")]
    Expired,
    /// The certificate of the peer is not valid yet.
    #[error("the peer's certificate is not valid yet: set the clocks of both hosts")]
    NotYetValid,
    /// The certificate of the peer is another process's.
    #[error(
        "the peer's certificate is for {presented:?}, and `{expected}` was dialled: name the host in its certificate (subjectAltName), or accept any name by `PeerNames::Any`"
    )]
    WrongName {
        /// The host that was dialled.
        expected: String,
        /// The names in the certificate.
        presented: Vec<String>,
    },
    /// The certificate of the peer is for something else.
    #[error(
        "the peer's certificate is not for this side of a link: sign it for both `serverAuth` and `clientAuth`, since each process listens and dials"
    )]
    WrongPurpose,
    /// The peer has shown no certificate.
    #[error("the peer has no certificate: give it `Credentials` of this cluster")]
    NoCertificate,
    /// The certificate of the peer is unsound in another way.
    #[error("the peer's certificate is unsound ({text}): sign a new one")]
    Unsound {
        /// The words of the library.
        text: String,
    },
    /// The peer has refused this process, and said why in a word.
    #[error(
        "the peer refused this process ({alert}), and its own error says more: is the certificate of this process signed by the cluster's authority, and valid today?"
    )]
    Refused {
        /// The name of the alert.
        alert: String,
    },
    /// The bytes of the peer are no TLS.
    #[error("the peer speaks no TLS: give all processes of the cluster the transport `Tls`")]
    NotTls,
    /// The peer closed the stream within the handshake of TLS.
    #[error(
        "the peer closed the link within the handshake of TLS, and its own error says why: does it speak TLS at all?"
    )]
    HungUp,
    /// The place that was dialled names no host.
    #[error(
        "`{connect_at}` names no host that a certificate could be for: accept any name by `PeerNames::Any`"
    )]
    NoName {
        /// The place.
        connect_at: String,
    },
    /// The peer violates the protocol, or somebody between has changed or repeated its bytes.
    #[error(
        "the bytes of the peer are not those of this session ({text}): were they changed or repeated on the way, or does it know no TLS 1.3?"
    )]
    Protocol {
        /// The words of the library.
        text: String,
    },
}

impl TlsError {
    /// The error of TLS in an error of a stream.
    pub(crate) fn within(error: &io::Error) -> Option<Self> {
        let error = error.get_ref()?;
        let own = error.downcast_ref::<TlsError>().cloned();
        own.or_else(|| error.downcast_ref::<rustls::Error>().map(Self::of))
    }

    fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            rustls::Error::NoCertificatesPresented => TlsError::NoCertificate,
            rustls::Error::AlertReceived(alert) => {
                let alert = format!("{alert:?}");
                TlsError::Refused { alert }
            }
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => TlsError::NotTls,
            other => {
                let text = other.to_string();
                TlsError::Protocol { text }
            }
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            // An authority of the same name has another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsError::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsError::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsError::NotYetValid
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                TlsError::WrongPurpose
            }
            CertificateError::NotValidForNameContext { expected, presented } => TlsError::WrongName {
                expected: expected.to_str().into_owned(),
                presented: presented.clone(),
            },
            other => {
                let text = other.to_string();
                TlsError::Unsound { text }
            }
        }
    }
}

/// The error of a stream whose handshake of TLS has failed.
pub(super) fn of_handshake(error: io::Error) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
    match error.kind() {
        kind @ (BrokenPipe | ConnectionReset | UnexpectedEof) => io::Error::new(kind, TlsError::HungUp),
        // A message that is longer than any of a handshake.
        InvalidData if TlsError::within(&error).is_none() => {
            let text = error.to_string();
            io::Error::new(InvalidData, TlsError::Protocol { text })
        }
        _ => error,
    }
}
