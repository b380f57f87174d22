//! The line by which a worker says where it listens: `selvedge-worker#1 host:port`.
//!
//! The number is the version of the line. A worker writes an end of line before it, so that text which the program has
//! printed before without one does not spoil it.

use super::address::WorkerAddress;
use super::lines::OutputLine;

const NAME: &str = "selvedge-worker#";
const VERSION: &str = "1";

impl WorkerAddress {
    /// The text that the worker writes to its standard output, in one piece.
    ///
    /// ```
    /// use selvedge_cluster::manager::WorkerAddress;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let address: WorkerAddress = "10.0.0.7:4711".parse()?;
    /// assert_eq!(address.announcement(), "\nselvedge-worker#1 10.0.0.7:4711\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn announcement(&self) -> String {
        format!("\n{NAME}{VERSION} {self}\n")
    }
}

/// The meaning of a line.
pub(super) enum Heard {
    /// The address of the worker.
    Address(WorkerAddress),
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
    let address = content.split_once(' ').filter(|(version, _)| *version == VERSION);
    match address.map(|(_, address)| address.parse()) {
        Some(Ok(address)) => Heard::Address(address),
        _ => Heard::Unreadable,
    }
}
