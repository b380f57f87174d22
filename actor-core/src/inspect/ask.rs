//! The process that asks.

use std::io;
use std::time::{Duration, Instant};

use super::error::InspectError;
use super::table::InspectTable;
use super::topic::InspectTopic;
use super::wire::{InspectQuestion, InspectReply, VERSION};
use crate::platform::inspect_socket::{Absent, InspectSpot, find, parent, processes};

/// The time in which a process answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A runtime of a process, and what it has answered.
#[derive(Debug)]
pub struct InspectedRuntime {
    /// The number of the runtime among those that its process has made, from 1.
    pub number: u32,
    /// The answer, or the reason that there is none.
    pub table: Result<InspectTable, InspectError>,
}

/// Asks the runtimes of a process, one after the other, for a table of at most `rows_max` rows, and of at most 10 000. The answer comes
/// from a thread that has no other work, so it also comes from a program whose threads are all busy or stuck. Each runtime has 5 s to answer.
///
/// ```
/// # use selvedge_core as selvedge;
/// use selvedge::Runtime;
/// use selvedge::inspect::{InspectTopic, inspect};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::new();
/// # if cfg!(not(target_os = "linux")) { return Ok(()); }
/// let worker = runtime.worker("a")?;
/// let mut answers = inspect(std::process::id(), InspectTopic::Members, 10)?; // as another process would
/// assert_eq!(answers.remove(0).table?.rows.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The [`InspectError`] of the first runtime, if none gives a table.
pub fn inspect(
    pid: u32,
    topic: InspectTopic,
    rows_max: usize,
) -> Result<Vec<InspectedRuntime>, InspectError> {
    let spots = find(pid).map_err(|absent| match absent {
        Absent::Process => InspectError::NoProcess { pid },
        Absent::OtherUser => InspectError::OtherUser { pid },
        Absent::OtherNetwork => InspectError::OtherNetwork { pid },
        Absent::System(error) => InspectError::System { pid, error },
    })?;
    let question = InspectQuestion {
        topic,
        rows_max: rows_max as u64,
    };
    let answer = |spot: &InspectSpot| {
        let (number, table) = (spot.number(), ask(spot, pid, question).transpose()?);
        Some(InspectedRuntime { number, table })
    };
    let answers: Vec<_> = spots.iter().filter_map(answer).collect();
    if answers.is_empty() {
        let others = processes();
        let parent = parent(pid).filter(|parent| others.contains(parent));
        return Err(match parent {
            Some(parent) => InspectError::Child { pid, parent },
            None => InspectError::NoRuntime { pid, others },
        });
    }
    if answers.iter().any(|answer| answer.table.is_ok()) {
        return Ok(answers);
    }
    let first = answers.into_iter().find_map(|answer| answer.table.err());
    first.map_or_else(|| Ok(Vec::new()), Err)
}

/// Asks one runtime; `None` if it has ended.
fn ask(
    spot: &InspectSpot,
    pid: u32,
    question: InspectQuestion,
) -> Result<Option<InspectTable>, InspectError> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let conversation = || {
        let Some(stream) = spot.connect()? else {
            return Ok(None);
        };
        question.send(&stream, deadline)?;
        InspectReply::receive(&stream, deadline).map(Some)
    };
    match conversation() {
        Ok(Some(InspectReply::Table(table))) => Ok(Some(table)),
        Ok(Some(InspectReply::Stranger)) => Err(InspectError::OtherUser { pid }),
        Ok(Some(InspectReply::OtherVersion(theirs))) => Err(InspectError::OtherVersion {
            pid,
            theirs,
            ours: VERSION.to_owned(),
        }),
        Ok(Some(InspectReply::Garbled(what))) => Err(InspectError::Garbled { pid, what }),
        Ok(None) => Ok(None),
        Err(error) => match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                let waited = ANSWER_TIMEOUT;
                Err(InspectError::NoAnswer { pid, waited })
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                match spot.connect() {
                    // The runtime has ended meanwhile.
                    Ok(None) => Ok(None),
                    _ => Err(InspectError::CutOff { pid }),
                }
            }
            _ => Err(InspectError::System { pid, error }),
        },
    }
}
