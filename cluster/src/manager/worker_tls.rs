//! The credentials of a worker under TLS: where it takes them from.

use serde::{Deserialize, Serialize};

/// The flag by which a worker reads credentials from its standard input, behind the cookie.
pub(super) const INPUT_FLAG: &str = "--tls-input";
/// The flag before the paths of the chain, the key and the authority.
pub(super) const FILES_FLAG: &str = "--tls-files";
/// The flag by which a worker accepts certificates for any name.
pub(super) const ANY_NAME_FLAG: &str = "--tls-any-name";

/// The transport of a worker's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkerLinks {
    /// TCP.
    #[default]
    Tcp,
    /// TLS over TCP.
    Tls(WorkerTls),
    /// A transport of the user's own: the command has none of the flags of selvedge, and the program makes itself a worker.
    Own,
}

/// The place from which a worker takes its credentials, for links over TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerTls {
    /// The standard input, behind the cookie. Certificates for any name are accepted.
    Input,
    /// Files in the format PEM, on the host of the worker.
    Files(TlsFiles),
}

/// The files of a process under TLS, in the format PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The chain of the process, its own certificate first.
    pub chain: String,
    /// The key, which only its owner may read.
    pub key: String,
    /// The certificates of the authority.
    pub authority: String,
    /// Whether a certificate of a process that is dialled may have any name, and not the dialled one alone.
    pub any_name: bool,
}

impl WorkerTls {
    /// The flags of a worker. None of them is a secret.
    pub(super) fn flags(&self) -> Vec<String> {
        match self {
            WorkerTls::Input => vec![INPUT_FLAG.to_owned()],
            WorkerTls::Files(files) => {
                let paths = [&files.chain, &files.key, &files.authority].map(String::as_str);
                let any_name = files.any_name.then_some(ANY_NAME_FLAG);
                let words = [FILES_FLAG].into_iter().chain(paths).chain(any_name);
                words.map(str::to_owned).collect()
            }
        }
    }
}
