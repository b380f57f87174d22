//! The reader of frames.

use std::fmt;
use std::io;

use tokio::io::AsyncReadExt;

use super::FrameSettings;
use super::end::SharedEnd;
use crate::frame::{Decoder, Frame};
use crate::net::error::{LinkCause, LinkError};
use crate::net::transport::ReadHalf;

/// The bytes of one read, unless it goes straight into a part that lacks more.
const READ_BYTES: usize = 64 << 10;

/// The reader of a link's frames.
pub struct FrameReader {
    input: Input,
    decoder: Decoder,
    /// Whether a part of a frame has been read, and the rest has not.
    is_within_frame: bool,
    end: SharedEnd,
}

/// The bytes of a link.
struct Input {
    reader: ReadHalf,
    /// The bytes of the last read, unless it went straight into a part.
    bytes: Vec<u8>,
    /// The number of these that are decoded.
    decoded: usize,
}

impl FrameReader {
    pub(super) fn new(reader: ReadHalf, beyond: Vec<u8>, end: SharedEnd, settings: FrameSettings) -> Self {
        FrameReader {
            input: Input {
                reader,
                bytes: beyond,
                decoded: 0,
            },
            decoder: Decoder::new(settings.limits),
            is_within_frame: false,
            end,
        }
    }

    /// Waits for the next frame; `None` once the peer has ended its direction. Dropping the future loses nothing: a frame
    /// that has come in part is completed by the next call (`NET-4`). Frames that have arrived come before the end.
    ///
    /// # Errors
    /// [`LinkError`]: the link has ended, by whatever side.
    pub async fn next(&mut self) -> Result<Option<Frame>, LinkError> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            let read = tokio::select! {
                biased;
                read = self.input.read(&mut self.decoder) => read,
                ended = self.end.ended() => return Err(ended),
            };
            match read {
                Ok(0) if self.is_within_frame => return Err(self.end.end(LinkCause::Torn)),
                Ok(0) => return Ok(None),
                Ok(_) => (),
                Err(error) => return Err(self.end.lost(&error)),
            }
        }
    }

    fn decode(&mut self) -> Result<Option<Frame>, LinkError> {
        let before = self.input.rest();
        let mut rest = before;
        let frame = self.decoder.decode(&mut rest);
        let decoded = before.len() - rest.len();
        self.is_within_frame = match &frame {
            Ok(Some(_)) => false,
            _ => self.is_within_frame || decoded > 0,
        };
        self.input.decoded += decoded;
        frame.map_err(|error| self.end.end(error.into()))
    }
}

impl Input {
    /// The bytes that are not decoded yet.
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.decoded..).unwrap_or_default()
    }

    /// Reads some bytes, once all that were read are decoded: straight into the part that the decoder reads if much of it is
    /// missing.
    async fn read(&mut self, decoder: &mut Decoder) -> io::Result<usize> {
        match decoder.part() {
            Some((part, missing)) if missing >= READ_BYTES => {
                // Memory grows with what has come.
                let most = missing.min(part.len().max(READ_BYTES));
                part.reserve(most);
                let read = (&mut self.reader).take(most as u64).read_buf(part).await?;
                decoder.filled(read);
                Ok(read)
            }
            _ => {
                self.bytes.clear();
                self.decoded = 0;
                self.bytes.reserve(READ_BYTES);
                (&mut self.reader)
                    .take(READ_BYTES as u64)
                    .read_buf(&mut self.bytes)
                    .await
            }
        }
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
