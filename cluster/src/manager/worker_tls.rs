//! The credentials of a worker under TLS: where it takes them from.

use serde::{Deserialize, Serialize};

use super::worker_command::{BIND_FLAG, WORKER_FLAG};

/// The flag by which a worker reads credentials from its standard input, behind the cookie.
const INPUT_FLAG: &str = "--tls-input";
/// The flag before the paths of the chain, the key and the authority.
const FILES_FLAG: &str = "--tls-files";
/// The flag by which a worker accepts certificates for any name.
const ANY_NAME_FLAG: &str = "--tls-any-name";

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

/// The flags of a worker, as its command line has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFlags {
    /// The address to listen on.
    pub bind: Option<String>,
    /// The place of its credentials; `None` without TLS.
    pub tls: Option<WorkerTls>,
}

impl WorkerFlags {
    /// The flags behind [`WORKER_FLAG`]; `None` for a command line without it. What comes behind a word that is no flag of a worker
    /// is not read.
    ///
    /// ```
    /// use selvedge_cluster::manager::{WorkerCommand, WorkerFlags, WorkerLinks, WorkerTls};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let command = WorkerCommand::new("/opt/train").argument("--fast").bind("10.0.0.7".parse()?);
    /// let command = command.links(WorkerLinks::Tls(WorkerTls::Input));
    /// let flags = WorkerFlags::of(command.local()?.arguments).ok_or("no worker")?;
    /// assert_eq!((flags.bind.as_deref(), flags.tls), (Some("10.0.0.7"), Some(WorkerTls::Input)));
    /// assert!(WorkerFlags::of(["--fast".to_owned()]).is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(arguments: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut arguments = arguments.into_iter();
        arguments.find(|argument| argument == WORKER_FLAG)?;
        let mut flags = WorkerFlags::default();
        while let Some(flag) = arguments.next() {
            match (flag.as_str(), &mut flags.tls) {
                (BIND_FLAG, _) => flags.bind = arguments.next(),
                (INPUT_FLAG, tls) => *tls = Some(WorkerTls::Input),
                (FILES_FLAG, tls) => {
                    *tls = Some(WorkerTls::Files(TlsFiles {
                        chain: arguments.next()?,
                        key: arguments.next()?,
                        authority: arguments.next()?,
                        any_name: false,
                    }));
                }
                (ANY_NAME_FLAG, Some(WorkerTls::Files(files))) => files.any_name = true,
                _ => break,
            }
        }
        Some(flags)
    }
}
