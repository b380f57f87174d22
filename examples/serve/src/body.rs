//! Bodies of requests, read up to a limit and within a time.
//!
//! A body that says it is too long is not kept. Closing the connection at once would reset it, and the client would never see
//! why; so what it still sends is thrown away, up to a bound, before the answer goes out. A client that asks first
//! (`Expect: 100-continue`) is answered before it sends anything.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::error::Error;

/// How many bytes beyond the limit are thrown away before the connection is given up.
const DISCARDED: usize = 256 << 20;

/// How much is read of a body, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit {
    /// The longest body that is read.
    pub bytes: usize,
    /// How long it may take to arrive.
    pub time: Duration,
}

impl Default for BodyLimit {
    /// 1 MiB within 30 s.
    fn default() -> Self {
        BodyLimit {
            bytes: 1 << 20,
            time: Duration::from_secs(30),
        }
    }
}

impl BodyLimit {
    /// The whole body.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and [`Error::Body`] where it breaks off or takes too long.
    pub async fn read(self, request: Request) -> Result<Bytes, Error> {
        let headers = request.headers();
        let declared = headers.get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
        let asks = headers.contains_key(header::EXPECT);
        let too_large = Error::TooLarge { limit: self.bytes };
        if asks && declared.is_some_and(|length| length > self.bytes) {
            return Err(too_large);
        }
        match timeout(self.time, self.collect(request.into_body())).await {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => Err(too_large),
            Ok(Err(error)) => Err(Error::Body(error.to_string())),
            Err(_) => Err(Error::Body(format!(
                "it took longer than {} s",
                self.time.as_secs()
            ))),
        }
    }

    /// The body, or `None` where it is too long; then nothing of it is kept.
    async fn collect(self, mut body: Body) -> Result<Option<Bytes>, axum::Error> {
        let (mut kept, mut length) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            length += data.len();
            if length <= self.bytes {
                kept.extend_from_slice(&data);
            } else if length > self.bytes + DISCARDED {
                break;
            } else {
                kept = Vec::new();
            }
        }
        Ok((length <= self.bytes).then(|| kept.into()))
    }
}
