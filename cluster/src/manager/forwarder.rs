//! Output of workers, on its way to the user.

use std::fmt;

use super::lines::{Lines, OutputLine};
use crate::peer::ProcessId;

/// The process that has written a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A process that has not announced itself yet.
    StartUp,
    /// A worker.
    Worker(ProcessId),
}

impl Origin {
    /// The line with its origin in front.
    pub(super) fn line(self, line: &OutputLine) -> String {
        format!("{self}: {}", line.text)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::StartUp => f.write_str("From worker startup"),
            Origin::Worker(process) => write!(f, "From worker {}", process.number()),
        }
    }
}

/// One stream of a worker's output, made into lines that name the worker (JCLUST-11).
///
/// ```
/// use selvedge_cluster::manager::{Forwarder, Origin};
/// use selvedge_cluster::peer::ProcessId;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut output = Forwarder::new(Origin::Worker(ProcessId::new(3).ok_or("zero")?));
/// let mut bytes = &b"loss 0.5\nloss"[..];
/// assert_eq!(output.receive(&mut bytes), Some("From worker 3: loss 0.5".to_owned()));
/// assert_eq!(output.receive(&mut bytes), None); // the line is not complete
/// assert_eq!(output.finish(), Some("From worker 3: loss".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Forwarder {
    origin: Origin,
    lines: Lines,
}

impl Forwarder {
    /// The forwarder of one stream; standard output and standard error have one each.
    pub fn new(origin: Origin) -> Self {
        Forwarder {
            origin,
            lines: Lines::default(),
        }
    }

    /// Takes bytes from `input` until a line is complete or the input is empty.
    pub fn receive(&mut self, input: &mut &[u8]) -> Option<String> {
        let line = self.lines.receive(input)?;
        Some(self.origin.line(&line))
    }

    /// The last line, if the stream has ended in the middle of one.
    pub fn finish(&mut self) -> Option<String> {
        let line = self.lines.finish()?;
        Some(self.origin.line(&line))
    }
}
