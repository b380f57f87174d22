//! The line by which a worker says where it listens: `selvedge-worker#1 host:port`, or `selvedge-worker#1 at TEXT` for a transport
//! of the user's own.
//!
//! The number is the version of the line. A worker writes an end of line before it, so that text which the program has
//! printed before without one does not spoil it.

use super::lines::OutputLine;
use super::worker_place::WorkerPlace;

const NAME: &str = "selvedge-worker#";
const VERSION: &str = "1";
/// The word before a place that is no address.
const AT: &str = "at ";

impl WorkerPlace {
    /// The text that the worker writes to its standard output, in one piece.
    ///
    /// ```
    /// use selvedge_cluster::manager::WorkerPlace;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let place = WorkerPlace::Address("10.0.0.7:4711".parse()?);
    /// assert_eq!(place.announcement(), "\nselvedge-worker#1 10.0.0.7:4711\n");
    /// assert_eq!(WorkerPlace::own("shelf 3")?.announcement(), "\nselvedge-worker#1 at shelf 3\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn announcement(&self) -> String {
        match self {
            WorkerPlace::Address(address) => format!("\n{NAME}{VERSION} {address}\n"),
            WorkerPlace::Own(place) => format!("\n{NAME}{VERSION} {AT}{place}\n"),
        }
    }
}

/// The meaning of a line.
pub(super) enum Heard {
    /// The place of the worker.
    Place(WorkerPlace),
    /// An announcement that cannot be read: the worker is of another build.
    Unreadable,
    /// Any other line.
    Text,
}

pub(super) fn hear(line: &OutputLine) -> Heard {
    let content = line.text.strip_prefix(NAME).filter(|_| !line.is_continuation);
    let Some(content) = content else {
        return Heard::Text;
    };
    let place = content.split_once(' ').filter(|(version, _)| *version == VERSION);
    let place = place.map(|(_, place)| match place.strip_prefix(AT) {
        Some(place) => WorkerPlace::own(place),
        None => place.parse().map(WorkerPlace::Address),
    });
    match place {
        Some(Ok(place)) => Heard::Place(place),
        _ => Heard::Unreadable,
    }
}
