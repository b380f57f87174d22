//! The flags of a worker on its command line. None of them is a secret.

use std::path::PathBuf;

use super::worker_command::{BIND_FLAG, WORKER_FLAG};
use super::worker_tls::{ANY_NAME_FLAG, FILES_FLAG, INPUT_FLAG, TlsFiles, WorkerTls};

/// The flag before the address at which a worker dials its driver.
pub const DIAL_FLAG: &str = "--dial";
/// The flag before the path of the file with the cookie, which a worker reads instead of its standard input.
pub const COOKIE_FILE_FLAG: &str = "--cookie-file";
/// The flag of a worker that dials and does not listen.
pub const NO_PORT_FLAG: &str = "--no-port";

/// The flags of a worker, as its command line has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerFlags {
    /// The address to listen on.
    pub bind: Option<String>,
    /// The address at which the worker dials its driver; `None` for a worker that its driver dials.
    pub dial: Option<String>,
    /// Whether the worker dials and does not listen, so that other workers cannot dial it.
    pub no_port: bool,
    /// The file with the cookie, and the credentials behind it; `None` for the standard input.
    pub cookie_file: Option<PathBuf>,
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
    ///
    /// let words = "--fast --selvedge-worker --dial head:7447 --cookie-file /etc/train.cookie --no-port";
    /// let flags = WorkerFlags::of(words.split(' ').map(str::to_owned)).ok_or("no worker")?;
    /// assert_eq!((flags.dial.as_deref(), flags.no_port), (Some("head:7447"), true));
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
                // An address that is missing is refused like any other that is none.
                (DIAL_FLAG, _) => flags.dial = Some(arguments.next().unwrap_or_default()),
                (NO_PORT_FLAG, _) => flags.no_port = true,
                (COOKIE_FILE_FLAG, _) => {
                    flags.cookie_file = Some(arguments.next().unwrap_or_default().into())
                }
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
