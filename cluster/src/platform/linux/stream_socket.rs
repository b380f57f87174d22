//! The sockets under streams.

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncWriteExt, copy};
use tokio::net::{UnixStream, tcp, unix};

use crate::net::Halves;

/// The socket of a stream: the descriptor of a connected stream socket.
pub type StreamSocket = OwnedFd;

/// The socket of a stream, in non-blocking mode. A stream whose halves are not those of a socket is carried by a pair of
/// sockets: two tasks of the current runtime copy its bytes, and end with it.
///
/// # Errors
/// No descriptor is left.
pub(crate) fn into_socket(halves: Halves) -> io::Result<StreamSocket> {
    let Halves {
        mut reader,
        mut writer,
        ..
    } = halves;
    let (read_half, write_half): (&dyn Any, &dyn Any) = (&*reader, &*writer);
    if read_half.is::<tcp::OwnedReadHalf>() && write_half.is::<tcp::OwnedWriteHalf>() {
        let (reader, writer) = typed::<tcp::OwnedReadHalf, tcp::OwnedWriteHalf>(reader, writer)?;
        let stream = reader.reunite(writer).map_err(io::Error::other)?;
        return Ok(stream.into_std()?.into());
    }
    if read_half.is::<unix::OwnedReadHalf>() && write_half.is::<unix::OwnedWriteHalf>() {
        let (reader, writer) = typed::<unix::OwnedReadHalf, unix::OwnedWriteHalf>(reader, writer)?;
        let stream = reader.reunite(writer).map_err(io::Error::other)?;
        return Ok(stream.into_std()?.into());
    }
    let (ours, theirs) = UnixStream::pair()?;
    let (mut from_here, mut to_here) = ours.into_split();
    // An error ends its direction, as the end of the stream does.
    tokio::spawn(async move { copy(&mut reader, &mut to_here).await });
    tokio::spawn(async move {
        let copied = copy(&mut from_here, &mut writer).await;
        copied.and(writer.shutdown().await)
    });
    Ok(theirs.into_std()?.into())
}

/// Two halves that are of these types.
fn typed<R: Any, W: Any>(reader: Box<dyn Any>, writer: Box<dyn Any>) -> io::Result<(R, W)> {
    match (reader.downcast(), writer.downcast()) {
        (Ok(reader), Ok(writer)) => Ok((*reader, *writer)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
