//! The link between a driver and a worker, which does not exist here.

use std::io::{self, Read, Write};

use super::peer_socket::PeerEnd;

/// The driver's end of a link, to read from.
pub(crate) type LinkReader = tokio::io::Empty;
/// The driver's end of a link, to write to.
pub(crate) type LinkWriter = tokio::io::Sink;

/// A worker's end of its link.
pub(crate) enum Stream {}

impl Stream {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match *self {}
    }
}

/// A worker's end of its link, to read from.
pub(crate) struct StreamReader(Stream);

impl StreamReader {
    pub(crate) fn new(stream: Stream) -> Self {
        StreamReader(stream)
    }

    pub(crate) fn take_end(&mut self) -> Option<PeerEnd> {
        match self.0 {}
    }
}

impl Read for StreamReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

/// Sends the first of these bytes with an end of a pair.
pub(crate) async fn send_end(_: &LinkWriter, _: &[u8], end: &PeerEnd) -> io::Result<usize> {
    match *end {}
}

impl Write for Stream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

/// A pipe with a worker's output.
pub(crate) enum OutputPipe {}

/// A pipe with a worker's output, which the reactor watches.
pub(crate) enum OutputReader {}

impl OutputReader {
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn try_read(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

/// Gives the driver's end of a link to the reactor.
pub(crate) fn connect(stream: Stream) -> io::Result<(LinkReader, LinkWriter)> {
    match stream {}
}

/// Gives a pipe with a worker's output to the reactor.
pub(crate) fn output(pipe: OutputPipe) -> io::Result<OutputReader> {
    match pipe {}
}

/// Whether the error says that code of this process has closed the descriptor of the link.
pub(crate) fn is_closed_descriptor(_: &io::Error) -> bool {
    false
}

/// Whether something can still read what is written to this program's `output`; not known here.
pub(crate) fn has_reader<T>(_output: &T) -> bool {
    true
}
