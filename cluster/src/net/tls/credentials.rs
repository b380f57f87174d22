//! The certificates and the key of a process.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, InconsistentKeys, RootCertStore};

use super::CredentialsError;
use crate::handshake::wipe;
use crate::platform::file_access::{self, FileRefusal};

/// The bytes of a file with certificates or a key.
const BYTES_MAX: usize = 1 << 20;

/// A key and the chain of its certificate, by which a process shows who it is, and the certificates of the cluster's
/// authority, by which it knows others. The key cannot be printed.
///
/// Each process listens and dials, so a certificate that limits its use allows both, `serverAuth` and `clientAuth`.
#[derive(Clone)]
pub struct Credentials {
    certificates: usize,
    certified_key: Arc<SingleCertAndKey>,
    authority: Arc<RootCertStore>,
}

impl Credentials {
    /// Reads files in the format PEM: the chain of the process, its own certificate first; its key, which only its owner may
    /// read; and the certificates of the authority.
    ///
    /// # Errors
    /// Any [`CredentialsError`].
    pub fn read(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        authority: impl AsRef<Path>,
    ) -> Result<Self, CredentialsError> {
        let [chain, key, authority] = [chain.as_ref(), key.as_ref(), authority.as_ref()];
        let name = |path: &Path| format!("`{}`", path.display());
        let chain = certificates(&text(chain, file_access::open)?.0, name(chain))?;
        let authority = certificates(&text(authority, file_access::open)?.0, name(authority))?;
        let key = private_key(&text(key, file_access::open_private)?.0, name(key))?;
        Self::of(chain, key, authority)
    }

    /// Reads texts in the format PEM, as [`read`](Self::read) does files. The caller overwrites the one of the key.
    ///
    /// # Errors
    /// A [`CredentialsError`] that is not about files.
    pub fn parse(chain: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, CredentialsError> {
        Self::of(
            certificates(chain, "the chain".into())?,
            private_key(key, "the key".into())?,
            certificates(authority, "the authority".into())?,
        )
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authority: Vec<CertificateDer<'static>>,
    ) -> Result<Self, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for certificate in authority {
            roots.add(certificate).map_err(CredentialsError::unusable)?;
        }
        let certificates = chain.len();
        let certified_key = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let certified_key = certified_key.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CredentialsError::Mismatch,
            error => CredentialsError::unusable(error),
        })?;
        Ok(Credentials {
            certificates,
            certified_key: Arc::new(certified_key.into()),
            authority: roots.into(),
        })
    }

    pub(super) fn certified_key(&self) -> Arc<SingleCertAndKey> {
        self.certified_key.clone()
    }

    pub(super) fn authority(&self) -> Arc<RootCertStore> {
        self.authority.clone()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificates", &self.certificates)
            .field("authorities", &self.authority.len())
            .finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8], place: String) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(CredentialsError::NoCertificate { place }),
        Err(_) => Err(CredentialsError::Malformed { place }),
    }
}

fn private_key(pem: &[u8], place: String) -> Result<PrivateKeyDer<'static>, CredentialsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound => CredentialsError::NoKey { place },
        // What the error says may be a line of the key.
        _ => CredentialsError::Malformed { place },
    })
}

/// The content of a file, which may be a key, so it is overwritten after use.
struct FileText(Vec<u8>);

impl Drop for FileText {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

fn text(path: &Path, open: fn(&Path) -> Result<File, FileRefusal>) -> Result<FileText, CredentialsError> {
    let owned = || path.to_owned();
    let file = open(path).map_err(|refusal| match refusal {
        FileRefusal::Unreadable(error) => CredentialsError::Unreadable { path: owned(), error },
        FileRefusal::NotAFile => CredentialsError::NotAFile { path: owned() },
        FileRefusal::Exposed(mode) => CredentialsError::Exposed { path: owned(), mode },
    })?;
    // The memory never grows, which would leave a copy behind.
    let mut content = FileText(Vec::with_capacity(BYTES_MAX + 1));
    let read = file.take(BYTES_MAX as u64 + 1).read_to_end(&mut content.0);
    read.map_err(|error| CredentialsError::Unreadable { path: owned(), error })?;
    match content.0.len() > BYTES_MAX {
        true => Err(CredentialsError::Malformed {
            place: format!("`{}`", path.display()),
        }),
        false => Ok(content),
    }
}
