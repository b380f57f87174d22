//! The reasons that a new process has not said hello.

use std::io;
use std::time::Duration;

use crate::spawn_error::SpawnError;
use crate::worker::hello::Hello;
use crate::worker::protocol::{FrameError, FromWorker};

/// The error of a start whose process has not reached its program in time.
pub(super) fn too_slow(limit: Duration) -> io::Error {
    let text = format!(
        "its process has not reached the program within {limit:?} (is it stopped, or the file system slow? \
         help: Runtime::hello_timeout sets this time)"
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// A message and its body.
type Framed = (FromWorker, Vec<u8>);

/// The reason that there was no hello.
pub(super) enum NoHello {
    /// The process is no longer wanted.
    Unwanted(Box<SpawnError>),
    /// The ends of the process cannot be watched.
    Io(io::Error),
    /// The process closed its link.
    Ended,
    /// The first message was wrong or did not arrive; the text gives the reason.
    Said(String),
}

/// The threads that end with the process, if what it said first is a hello of this build.
pub(super) fn check_hello(
    hello: Result<Result<Option<Framed>, FrameError>, tokio::time::error::Elapsed>,
    limit: Duration,
) -> Result<Vec<u32>, NoHello> {
    match hello {
        Ok(Ok(Some((FromWorker::Hello { hello, sentinels }, _)))) => Hello::mine()
            .check(&hello)
            .map(|()| sentinels)
            .map_err(|error| NoHello::Said(error.to_string())),
        Ok(Ok(Some(_))) => Err(NoHello::Said("it spoke before it said hello".to_owned())),
        Ok(Ok(None)) => Err(NoHello::Ended),
        Ok(Err(error)) => Err(NoHello::Said(error.to_string())),
        Err(_) => Err(NoHello::Said(format!(
            "it started but never called `selvedge::init()` ({limit:?} passed; help: Runtime::hello_timeout sets this time)"
        ))),
    }
}
