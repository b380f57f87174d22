//! The head's log: the decisions of a head that outlive it, in a file.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/actor-core/src/head_log) of this folder has the format and the
//! invariants `LOG-1` to `LOG-4`.
//!
//! - `record`, `state`: decisions, and what follows from them: plain data.
//! - `replay`: bytes of a log and back; `error`: the defects of a log.
//! - `file`: the file, its lock, and its summary; `keeper`: the thread that writes it.

pub(crate) mod error;
mod file;
pub(crate) mod keeper;
pub(crate) mod record;
mod replay;
pub(crate) mod state;

#[cfg(test)]
mod tests;

pub(crate) use file::LogFile;
pub(crate) use keeper::{HeadLog, NotLogged};
pub(crate) use record::{HeadRecord, MemberPart};
pub(crate) use replay::LogHeader;
pub(crate) use state::HeadState;
