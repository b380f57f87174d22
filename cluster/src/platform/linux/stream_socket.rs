//! The sockets under streams.

use std::any::Any;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{UnixStream, tcp, unix};
use tokio::time::timeout;

use crate::net::carried::{Carried, CarriedState};
use crate::net::{Halves, ReadHalf, WriteHalf};

/// The bytes that are carried at a time: a few records of TLS.
const CARRIED_BYTES: usize = 64 << 10;

/// The time for the last bytes of a stream, in either direction.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// The socket of a stream: the descriptor of a connected stream socket, in non-blocking mode.
#[derive(Debug)]
pub struct StreamSocket {
    /// The socket.
    pub descriptor: OwnedFd,
    /// The way to abandon a stream that is carried by a pair of sockets; `None` for a stream that is a socket itself.
    pub carried: Option<Carried>,
}

impl From<OwnedFd> for StreamSocket {
    fn from(descriptor: OwnedFd) -> Self {
        let carried = None;
        StreamSocket { descriptor, carried }
    }
}

/// The socket of a stream. If its halves are not those of a socket, a task of the current runtime carries its bytes over a
/// pair of sockets.
///
/// # Errors
/// No descriptor is left.
pub(crate) fn into_socket(halves: Halves) -> io::Result<StreamSocket> {
    let (read_half, write_half): (&dyn Any, &dyn Any) = (&*halves.reader, &*halves.writer);
    if read_half.is::<tcp::OwnedReadHalf>() && write_half.is::<tcp::OwnedWriteHalf>() {
        let (reader, writer) = typed::<tcp::OwnedReadHalf, tcp::OwnedWriteHalf>(halves)?;
        let stream = reader.reunite(writer).map_err(io::Error::other)?;
        return Ok(OwnedFd::from(stream.into_std()?).into());
    }
    if read_half.is::<unix::OwnedReadHalf>() && write_half.is::<unix::OwnedWriteHalf>() {
        let (reader, writer) = typed::<unix::OwnedReadHalf, unix::OwnedWriteHalf>(halves)?;
        let stream = reader.reunite(writer).map_err(io::Error::other)?;
        return Ok(OwnedFd::from(stream.into_std()?).into());
    }
    let (ours, theirs) = UnixStream::pair()?;
    let (carried, user) = Carried::new();
    let descriptor = theirs.into_std()?.into();
    tokio::spawn(carry(halves, ours, user));
    Ok(StreamSocket {
        descriptor,
        carried: Some(carried),
    })
}

/// Two halves that are of these types.
fn typed<R: Any, W: Any>(halves: Halves) -> io::Result<(R, W)> {
    let (reader, writer): (Box<dyn Any>, Box<dyn Any>) = (halves.reader, halves.writer);
    match (reader.downcast(), writer.downcast()) {
        (Ok(reader), Ok(writer)) => Ok((*reader, *writer)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The way in which a stream that is carried has ended.
enum Ended {
    /// The peer has ended it.
    Stream,
    /// The user of the other end of the pair has closed that.
    User,
    /// The transport has lost it.
    Lost,
}

/// Carries the bytes of a stream over our end of a pair, until the user of the other end has closed that, or the stream is lost.
///
/// The end of the stream ends our direction of the pair. A stream that is lost closes our end, which polls as a hang-up at the
/// other one: so its user tells the two apart, as it does with a socket of TCP.
async fn carry(halves: Halves, mut ours: UnixStream, user: Arc<CarriedState>) {
    let Halves {
        mut reader,
        mut writer,
        cut,
        ..
    } = halves;
    // Halves that are borrowed end nothing when they are dropped.
    let (mut from_user, mut to_user) = ours.split();
    let ended = until_end((&mut reader, &mut writer), (&mut from_user, &mut to_user), &user).await;
    if matches!(ended, Ended::Stream) {
        let _ = to_user.shutdown().await;
        // Whoever reads the end of the stream closes its end then.
        let _ = copy(&mut from_user, &mut sink()).await;
    }
    if !user.is_abandoned() && !matches!(ended, Ended::Lost) {
        // A peer that reads nothing gets no end.
        let _ = timeout(LAST_BYTES, writer.shutdown()).await;
    } else if let Some(cut) = cut {
        cut();
    }
}

/// Carries bytes in both directions until there is an end.
async fn until_end(
    (reader, writer): (&mut ReadHalf, &mut WriteHalf),
    (from_user, to_user): (&mut unix::ReadHalf<'_>, &mut unix::WriteHalf<'_>),
    user: &CarriedState,
) -> Ended {
    let (mut arriving, mut leaving) = (pin!(arrive(reader, to_user)), pin!(leave(from_user, writer)));
    tokio::select! {
        ended = &mut arriving => ended,
        left = &mut leaving => match left {
            Ended::User => Ended::User,
            // Bytes for a peer that has ended the stream are lost, but the stream is not: what has arrived before says which.
            Ended::Stream | Ended::Lost => timeout(LAST_BYTES, arriving).await.unwrap_or(Ended::Lost),
        },
        // A peer that reads nothing does not keep this task.
        () = user.dropped() => timeout(LAST_BYTES, leaving).await.unwrap_or(Ended::Lost),
    }
}

/// Brings the user what the peer sends. Does not end when the user has closed its end, because its last bytes may be on their way.
async fn arrive(reader: &mut ReadHalf, to_user: &mut unix::WriteHalf<'_>) -> Ended {
    match carry_bytes(reader, to_user).await {
        Stopped::End => Ended::Stream,
        Stopped::Reading => Ended::Lost,
        Stopped::Writing => pending().await,
    }
}

/// Brings the peer what the user sends.
async fn leave(from_user: &mut unix::ReadHalf<'_>, writer: &mut WriteHalf) -> Ended {
    match carry_bytes(from_user, writer).await {
        Stopped::End | Stopped::Reading => Ended::User,
        Stopped::Writing => Ended::Lost,
    }
}

/// The reason that no more bytes are carried.
enum Stopped {
    End,
    Reading,
    Writing,
}

async fn carry_bytes(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> Stopped {
    let mut bytes = vec![0; CARRIED_BYTES];
    loop {
        let read = match from.read(&mut bytes).await {
            Ok(0) => return Stopped::End,
            Ok(read) => read,
            Err(_) => return Stopped::Reading,
        };
        let written = async {
            to.write_all(bytes.get(..read).unwrap_or_default()).await?;
            to.flush().await
        };
        if written.await.is_err() {
            return Stopped::Writing;
        }
    }
}
