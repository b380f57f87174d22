//! The flags of a worker on its command line. None of them is a secret.

use std::path::PathBuf;

use thiserror::Error;

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

/// The reason that the flags of a worker are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkerFlagError {
    /// The word is no flag of a worker, or is one of TLS in the wrong place.
    #[error(
        "`{word}` is no flag of a worker here (help: the program's own arguments go before `{WORKER_FLAG}`, or behind `--`; \
         `{ANY_NAME_FLAG}` goes behind `{FILES_FLAG}`)"
    )]
    Unknown {
        /// The word.
        word: String,
    },
    /// The command line ends where a flag needs a value.
    #[error("`{flag}` needs {needs} behind it")]
    NoValue {
        /// The flag.
        flag: &'static str,
        /// The value that is missing.
        needs: &'static str,
    },
}

impl WorkerFlags {
    /// The flags behind [`WORKER_FLAG`]; `None` for a command line without it.
    ///
    /// ```
    /// use selvedge_cluster::manager::{WorkerCommand, WorkerFlags, WorkerLinks, WorkerTls};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let command = WorkerCommand::new("/opt/train").argument("--fast").bind("10.0.0.7".parse()?);
    /// let command = command.links(WorkerLinks::Tls(WorkerTls::Input));
    /// let flags = WorkerFlags::of(command.local()?.arguments)?.ok_or("no worker")?;
    /// assert_eq!((flags.bind.as_deref(), flags.tls), (Some("10.0.0.7"), Some(WorkerTls::Input)));
    /// assert!(WorkerFlags::of(["--fast".to_owned()])?.is_none());
    ///
    /// let words = "--fast --selvedge-worker --dial head:7447 --cookie-file /etc/train.cookie --no-port";
    /// let flags = WorkerFlags::of(words.split(' ').map(str::to_owned))?.ok_or("no worker")?;
    /// assert_eq!((flags.dial.as_deref(), flags.no_port), (Some("head:7447"), true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WorkerFlagError`]: a word behind it is no flag of a worker, or lacks its value.
    pub fn of(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, WorkerFlagError> {
        let mut arguments = arguments.into_iter();
        if !arguments.any(|argument| argument == WORKER_FLAG) {
            return Ok(None);
        }
        let mut flags = WorkerFlags::default();
        while let Some(word) = arguments.next() {
            let mut value = |flag, needs| {
                let value = arguments.next();
                value.ok_or(WorkerFlagError::NoValue { flag, needs })
            };
            match (word.as_str(), &mut flags.tls) {
                (BIND_FLAG, _) => flags.bind = Some(value(BIND_FLAG, "HOST or HOST:PORT")?),
                (DIAL_FLAG, _) => flags.dial = Some(value(DIAL_FLAG, "HOST:PORT of the driver")?),
                (NO_PORT_FLAG, _) => flags.no_port = true,
                (COOKIE_FILE_FLAG, _) => {
                    flags.cookie_file = Some(value(COOKIE_FILE_FLAG, "the path of a file")?.into());
                }
                (INPUT_FLAG, tls) => *tls = Some(WorkerTls::Input),
                (FILES_FLAG, tls) => {
                    let mut file = || value(FILES_FLAG, "three paths: CHAIN KEY AUTHORITY");
                    *tls = Some(WorkerTls::Files(TlsFiles {
                        chain: file()?,
                        key: file()?,
                        authority: file()?,
                        any_name: false,
                    }));
                }
                (ANY_NAME_FLAG, Some(WorkerTls::Files(files))) => files.any_name = true,
                _ => return Err(WorkerFlagError::Unknown { word }),
            }
        }
        Ok(Some(flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &str) -> Result<Option<WorkerFlags>, WorkerFlagError> {
        WorkerFlags::of(words.split(' ').map(str::to_owned))
    }

    #[test]
    fn a_wrong_flag_is_named_and_none_behind_it_is_lost_in_silence() {
        for (words, names) in [
            ("--selvedge-worker --no-prot --dial head:1", "`--no-prot`"),
            ("--selvedge-worker --dial head:1 --fast", "`--fast`"),
            ("--selvedge-worker --tls-any-name", "`--tls-any-name`"),
            ("--selvedge-worker --dial", "`--dial`"),
            ("--selvedge-worker --cookie-file", "`--cookie-file`"),
            ("--selvedge-worker --bind-to", "`--bind-to`"),
            ("--selvedge-worker --tls-files a b", "`--tls-files`"),
        ] {
            let error = flags(words).unwrap_err().to_string();
            assert!(error.contains(names), "{error}");
        }
        assert_eq!(flags("--no-prot --dial"), Ok(None));
    }
}
