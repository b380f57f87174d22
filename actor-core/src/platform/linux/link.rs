//! The link between a driver and a worker, a socket pair, and the pipes of the worker's output.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::unix::pipe;
pub(crate) use tokio::net::unix::{OwnedReadHalf as LinkReader, OwnedWriteHalf as LinkWriter};

use super::peer_socket::{PAIR_DESCRIPTORS, PeerEnd};

/// A worker's end of its link.
pub(crate) type Stream = UnixStream;

/// A worker's end of its link, to read from. Descriptors arrive beside the bytes.
pub(crate) struct StreamReader {
    stream: Stream,
    descriptors: Vec<OwnedFd>,
}

impl StreamReader {
    pub(crate) fn new(stream: Stream) -> Self {
        StreamReader {
            stream,
            descriptors: Vec::new(),
        }
    }

    /// Takes the end of a pair that came with the bytes read since the last call. `None` if none came, or if the system has
    /// refused some of its descriptors.
    pub(crate) fn take_end(&mut self) -> Option<PeerEnd> {
        PeerEnd::of_pair(std::mem::take(&mut self.descriptors))
    }
}

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PAIR_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(received.bytes)
    }
}

/// Sends the first of these bytes with an end of a pair, and returns the number of bytes sent: 0 if the system lets no more
/// descriptors be on their way, and then the bytes go without.
pub(crate) async fn send_end(socket: &LinkWriter, bytes: &[u8], end: &PeerEnd) -> io::Result<usize> {
    let stream: &tokio::net::UnixStream = socket.as_ref();
    loop {
        stream.writable().await?;
        let sent = stream.try_io(Interest::WRITABLE, || {
            let descriptors = end.descriptors();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PAIR_DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            let bytes = [IoSlice::new(bytes)];
            Ok(sendmsg(stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => return Ok(0),
            sent => return sent,
        }
    }
}

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
