//! The answer to one request, whole or as server-sent events, from the mailbox and the ticket of its sequence.
//!
//! When the client is gone, the answer is dropped, and the ticket with it: the sequence leaves before the next step.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use selvedge_batching::{BatchError, Ticket};
use serde_json::Value;

use crate::error::{Error, json_type};
use crate::failure::told;
use crate::generation::Delivery;
use crate::mailbox::Receiver;
use crate::metrics::Metrics;
use crate::sequence::Ending;
use crate::shape::Shape;

/// An event of an answer.
enum Event {
    Text(String),
    End(Ending),
}

/// An answer in flight.
pub struct Answer {
    pub(crate) receiver: Receiver,
    pub(crate) ticket: Ticket<Ending>,
    pub(crate) ended: Option<Result<Ending, BatchError>>,
    pub(crate) shape: Shape,
    pub(crate) delivery: Delivery,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) since: Instant,
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.metrics.gone.add(1);
        }
    }
}

impl Answer {
    /// Waits until the status is known: for a failure, the whole answer, or the first piece of a stream.
    pub async fn respond(self) -> Response {
        let responded = match self.delivery.stream {
            true => self.first_event().await,
            false => self.whole().await,
        };
        responded.unwrap_or_else(Error::into_response)
    }

    async fn whole(mut self) -> Result<Response, Error> {
        let mut text = String::new();
        loop {
            match self.next().await? {
                Event::Text(piece) => text.push_str(&piece),
                Event::End(ending) => {
                    self.metrics.whole.record(self.since.elapsed());
                    return Ok((json_type(), self.shape.whole(&text, ending).to_string()).into_response());
                }
            }
        }
    }

    async fn first_event(mut self) -> Result<Response, Error> {
        let first = self.next().await?;
        let mut frames = self.shape.opening().as_ref().map(frame).unwrap_or_default();
        let ended = self.write(Ok(first), &mut frames);
        let state = (self, Some(frames), ended);
        let body = stream::unfold(state, |(mut answer, ready, ended)| async move {
            if let Some(frames) = ready {
                return Some((Ok::<_, Infallible>(Bytes::from(frames)), (answer, None, ended)));
            }
            if ended {
                return None;
            }
            let mut frames = String::new();
            let event = answer.next().await;
            let ended = answer.write(event, &mut frames);
            Some((Ok(Bytes::from(frames)), (answer, None, ended)))
        });
        let headers = [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/event-stream"),
            ),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        Ok((headers, Body::from_stream(body)).into_response())
    }

    /// Writes an event as frames and returns whether it was the last.
    fn write(&self, event: Result<Event, Error>, frames: &mut String) -> bool {
        match event {
            Ok(Event::Text(text)) => {
                frames.push_str(&frame(&self.shape.piece(&text)));
                return false;
            }
            Ok(Event::End(ending)) => {
                frames.push_str(&frame(&self.shape.closing(ending)));
                if self.delivery.include_usage {
                    frames.push_str(&frame(&self.shape.bill(ending)));
                }
                frames.push_str("data: [DONE]\n\n");
                self.metrics.whole.record(self.since.elapsed());
            }
            Err(error) => {
                frames.push_str(&frame(&error.to_json()));
                self.metrics.broken_streams.add(1);
            }
        }
        true
    }

    async fn next(&mut self) -> Result<Event, Error> {
        poll_fn(|context| self.poll(context)).await.map_err(told)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, BatchError>> {
        // The ticket is polled first: once it is answered, no more text reaches the mailbox.
        if self.ended.is_none()
            && let Poll::Ready(ended) = Pin::new(&mut self.ticket).poll(context)
        {
            self.ended = Some(ended);
        }
        if let Some(text) = self.receiver.poll(context) {
            return Poll::Ready(Ok(Event::Text(text)));
        }
        match self.ended.clone() {
            Some(ended) => Poll::Ready(ended.map(Event::End)),
            None => Poll::Pending,
        }
    }
}

/// Formats a server-sent event. JSON on one line has no newline, so it needs no escape.
fn frame(value: &Value) -> String {
    format!("data: {value}\n\n")
}
