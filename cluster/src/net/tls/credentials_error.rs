//! Errors of certificates and keys.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason that certificates and key cannot be used. No text shows any byte of a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("`{}` cannot be read", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The path leads to something else than a file.
    #[error("`{}` is no file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Users other than its owner have rights to the file of the key.
    #[error("`{0}` has the permissions {mode:o}, so others may know the key: `chmod 600 {0}`, and make a new key and certificate", .path.display())]
    Exposed {
        /// The path.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// The text has no certificate.
    #[error("{place} has no certificate: it begins with `-----BEGIN CERTIFICATE-----` in the format PEM")]
    NoCertificate {
        /// The place of the text.
        place: String,
    },
    /// The text has no key that can be read.
    #[error(
        "{place} has no private key: it begins with `-----BEGIN PRIVATE KEY-----` in the format PEM, and has no password"
    )]
    NoKey {
        /// The place of the text.
        place: String,
    },
    /// The text is not in the format PEM, or has more than 1 MiB.
    #[error("{place} is damaged, or not in the format PEM, or longer than 1 MiB: write it anew")]
    Malformed {
        /// The place of the text.
        place: String,
    },
    /// The key is not the one of the certificate.
    #[error(
        "the key does not belong to the first certificate of the chain: give the two that were made together"
    )]
    Mismatch,
    /// The certificates or the key are none that TLS can use.
    #[error(
        "the certificates or the key cannot be used ({text}): take keys of the type ECDSA P-256, Ed25519 or RSA, and certificates of version 3"
    )]
    Unusable {
        /// The words of the library.
        text: String,
    },
}

impl CredentialsError {
    pub(super) fn unusable(error: impl std::error::Error) -> Self {
        let text = error.to_string();
        CredentialsError::Unusable { text }
    }
}
