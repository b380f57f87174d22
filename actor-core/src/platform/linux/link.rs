//! The link between a driver and a worker, a socket pair, and the pipes of the worker's output.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::unix::pipe;
pub(crate) use tokio::net::unix::{OwnedReadHalf as LinkReader, OwnedWriteHalf as LinkWriter};

/// A worker's end of its link.
pub(crate) type Stream = UnixStream;
/// The driver's end of a pipe with a worker's output.
pub(crate) type OutputPipe = OwnedFd;
/// A pipe with a worker's output, which the reactor watches.
pub(crate) use pipe::Receiver as OutputReader;

/// Gives the driver's end of a link to the reactor.
pub(crate) fn connect(stream: Stream) -> io::Result<(LinkReader, LinkWriter)> {
    stream.set_nonblocking(true)?;
    Ok(tokio::net::UnixStream::from_std(stream)?.into_split())
}

/// Gives a pipe with a worker's output to the reactor.
pub(crate) fn output(pipe: OutputPipe) -> io::Result<OutputReader> {
    OutputReader::from_owned_fd(pipe)
}

/// Whether the error says that code of this process has closed the descriptor of the link.
pub(crate) fn is_closed_descriptor(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADF)
}

/// Whether something can still read what is written to this program's `output`. A closed pipe is found here, before
/// `print!` panics because of it.
pub(crate) fn has_reader(output: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(output, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let gone = PollFlags::ERR | PollFlags::NVAL;
    poll(&mut polled, Some(&now)).is_err() || !polled.iter().any(|it| it.revents().intersects(gone))
}
