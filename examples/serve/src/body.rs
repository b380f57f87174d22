//! Bodies of requests, read up to a limit and within a time.
//!
//! A body that exceeds the limit is not kept. Closing the connection at once would reset it, and the client would never
//! see the reason; so the bytes that the client still sends without a pause are discarded, up to a bound, before the
//! answer is sent. A client that asks first (`Expect: 100-continue`) is answered before it sends anything.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::error::Error;

/// The bytes beyond the limit that are discarded before the connection is closed.
const DISCARDED: usize = 256 << 20;

/// The limits of a body: its length and its times.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    /// The longest body that is read.
    pub bytes: usize,
    /// The time that the body may take to arrive.
    pub time: Duration,
    /// The pause after which a client that has sent too much gets its answer, because it may be waiting for it.
    pub pause: Duration,
}

impl Default for BodyLimit {
    /// Returns 1 MiB within 30 s, and pauses of 500 ms beyond.
    fn default() -> Self {
        BodyLimit {
            bytes: 1 << 20,
            time: Duration::from_secs(30),
            pause: Duration::from_millis(500),
        }
    }
}

impl BodyLimit {
    /// Reads the whole body.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Framing`] if its chunks are malformed, and [`Error::Body`] if it breaks off or
    /// takes too long.
    pub async fn read(self, request: Request) -> Result<Bytes, Error> {
        let headers = request.headers();
        let declared = headers.get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
        let asks = headers.contains_key(header::EXPECT);
        let too_large = Error::TooLarge { limit: self.bytes };
        if asks && declared.is_some_and(|length| length > self.bytes) {
            return Err(too_large);
        }
        let mut body = request.into_body();
        match timeout(self.time, self.collect(&mut body)).await {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => {
                // The result is ignored: whether the body ends or takes too long, the answer is that it is too large.
                let _ = timeout(self.time, self.discard(body)).await;
                Err(too_large)
            }
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(Error::Body(format!(
                "it took longer than {} s",
                self.time.as_secs()
            ))),
        }
    }

    /// Reads the body; returns `None` if it is too long, and keeps none of it.
    async fn collect(self, body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
        let mut kept = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if kept.len() + data.len() > self.bytes {
                return Ok(None);
            }
            kept.extend_from_slice(&data);
        }
        Ok(Some(kept.into()))
    }

    /// Reads until the client ends or pauses, or exceeds [`DISCARDED`] bytes.
    async fn discard(self, mut body: Body) {
        let mut length = 0;
        while let Ok(Some(Ok(frame))) = timeout(self.pause, body.frame()).await {
            length += frame.data_ref().map_or(0, Bytes::len);
            if length > DISCARDED {
                return;
            }
        }
    }
}

/// Converts the error of a body: one that violates HTTP is the client's mistake, one that did not arrive is not.
fn broken(error: &axum::Error) -> Error {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let mut kinds = causes.filter_map(|cause| Some((cause, cause.downcast_ref::<io::Error>()?.kind())));
    let wrong =
        kinds.find(|(_, kind)| matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput));
    match wrong {
        Some((cause, _)) => Error::Framing(cause.to_string()),
        None => Error::Body(error.to_string()),
    }
}
