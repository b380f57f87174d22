//! The output of a process that was launched, until it says where it listens.

use thiserror::Error;

use super::announcement::{Heard, hear};
use super::lines::{Lines, OutputLine};
use super::printable::excerpt;
use super::worker_place::WorkerPlace;

/// The lines that a process may write before its announcement.
pub const START_UP_LINES_MAX: usize = 1000;

/// Something that the output says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartUpEvent {
    /// A line that is no announcement, with its origin in front: show it to the user.
    Text(String),
    /// The worker listens at this place. The rest of the input is its ordinary output.
    Announced(WorkerPlace),
}

/// The reason that there is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartUpError {
    /// The process wrote [`START_UP_LINES_MAX`] other lines and one more.
    #[error(
        "the process wrote {START_UP_LINES_MAX} lines and no announcement, the last one `{last}`: does the command \
         start a worker of selvedge?"
    )]
    TooManyLines {
        /// The beginning of the last line.
        last: String,
    },
    /// The output ended before the announcement.
    #[error(
        "the process ended, or closed its output, before it announced its address; its last line was `{last}`: look \
         at what it wrote to its standard error, and run the command by hand"
    )]
    Ended {
        /// The beginning of the last line that is not empty.
        last: String,
    },
    /// An announcement that this build cannot read.
    #[error("the announcement `{line}` is of another build: copy one executable to all hosts")]
    Unreadable {
        /// The beginning of the line.
        line: String,
    },
}

/// The standard output of a process that was launched, up to its announcement (JMGR-14, JMGR-20).
///
/// ```
/// use selvedge_cluster::manager::{StartUp, StartUpEvent, WorkerPlace};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut start_up = StartUp::default();
/// let mut bytes = &b"Welcome to gpu0\nselvedge-worker#1 [::1]:4711\nepoch 1\n"[..];
/// let text = "From worker startup: Welcome to gpu0".to_owned();
/// assert_eq!(start_up.receive(&mut bytes)?, Some(StartUpEvent::Text(text)));
/// assert_eq!(start_up.receive(&mut bytes)?, Some(StartUpEvent::Announced(WorkerPlace::Address("[::1]:4711".parse()?))));
/// assert_eq!(bytes, b"epoch 1\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct StartUp {
    lines: Lines,
    passed: usize,
    last: String,
}

impl StartUp {
    /// Takes bytes from `input` until there is something to say or the input is empty.
    ///
    /// # Errors
    /// [`StartUpError::TooManyLines`], [`StartUpError::Unreadable`]: end the process.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<StartUpEvent>, StartUpError> {
        while let Some(line) = self.lines.receive(input) {
            match hear(&line) {
                Heard::Place(place) => return Ok(Some(StartUpEvent::Announced(place))),
                Heard::Unreadable => {
                    let line = excerpt(&line.text);
                    return Err(StartUpError::Unreadable { line });
                }
                Heard::Text => {}
            }
            if self.passed >= START_UP_LINES_MAX {
                let last = excerpt(&line.text);
                return Err(StartUpError::TooManyLines { last });
            }
            self.passed += 1;
            if let Some(event) = self.pass_on(&line) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The output has ended without an announcement: the last piece of it, and the error.
    pub fn finish(mut self) -> (Option<StartUpEvent>, StartUpError) {
        let line = self.lines.finish();
        let event = line.and_then(|line| self.pass_on(&line));
        (event, StartUpError::Ended { last: self.last })
    }

    /// Empty lines are nothing to show.
    fn pass_on(&mut self, line: &OutputLine) -> Option<StartUpEvent> {
        (!line.text.is_empty()).then(|| {
            self.last = excerpt(&line.text);
            StartUpEvent::Text(format!("From worker startup: {}", line.text))
        })
    }
}
