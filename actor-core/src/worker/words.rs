//! The words of a worker, as they come to its driver: frames of a socket pair, or letters of the hub.

use tokio::io::AsyncReadExt;

use crate::platform::link::LinkReader;
#[cfg(feature = "hosts")]
use crate::worker::letters::ArrivedLetters;
use crate::worker::protocol::{FRAME_HEADER_BYTES, FrameError, FrameHeader, FromWorker, read_head};

/// The words of one worker.
pub(crate) enum Words {
    Socket(LinkReader),
    #[cfg(feature = "hosts")]
    Letters(ArrivedLetters),
}

impl Words {
    /// Waits for the next word and its body; `None` at the end.
    ///
    /// # Errors
    /// [`FrameError`]: what comes is no word.
    pub(crate) async fn next(&mut self) -> Result<Option<(FromWorker, Vec<u8>)>, FrameError> {
        match self {
            Words::Socket(socket) => read_frame(socket).await,
            #[cfg(feature = "hosts")]
            Words::Letters(letters) => letters.next().await,
        }
    }
}

/// Reads the next frame; returns `None` at the end of the stream.
async fn read_frame(socket: &mut LinkReader) -> Result<Option<(FromWorker, Vec<u8>)>, FrameError> {
    let mut start = [0; FRAME_HEADER_BYTES];
    match socket.read_exact(&mut start).await {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let header = FrameHeader::parse(start)?;
    let mut head = vec![0; header.head_bytes];
    socket.read_exact(&mut head).await?;
    let mut body = Vec::new();
    // The buffer grows with the bytes that arrive, not with the announced length.
    let read = socket.take(header.body_bytes).read_to_end(&mut body).await?;
    if read as u64 != header.body_bytes {
        return Err(FrameError::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Some((read_head(&head)?, body)))
}
