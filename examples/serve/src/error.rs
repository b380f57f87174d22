//! The errors that a client receives: a status and OpenAI's JSON object.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The reason why a request was not answered as requested.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The body is not a JSON object.
    #[error("the body is not a JSON object: {0}")]
    Malformed(String),
    /// The body ended too early, or came too slowly.
    #[error("the body did not arrive: {0}")]
    Body(String),
    /// The body violates HTTP: its chunks are malformed.
    #[error("the body is not what HTTP calls one: {0}")]
    Framing(String),
    /// The request does not have exactly one `Host` header, which HTTP/1.1 requires.
    #[error("the request has {0} `Host` headers; HTTP/1.1 asks for one")]
    Host(usize),
    /// The body is longer than this service reads.
    #[error("the body is longer than {limit} bytes")]
    TooLarge {
        /// The longest body that is read.
        limit: usize,
    },
    /// A field is missing, of the wrong kind, or out of range.
    #[error("`{param}` {problem}")]
    Field {
        /// The field.
        param: &'static str,
        /// The problem, as the rest of a sentence.
        problem: String,
    },
    /// The prompt, or prompt and answer together, need more positions than the model has.
    #[error("the model has {positions} positions; the prompt takes {prompt} and the answer up to {answer}")]
    ContextLength {
        /// Positions of the model.
        positions: u32,
        /// Tokens of the prompt.
        prompt: usize,
        /// The requested number of tokens, at least 1.
        answer: usize,
    },
    /// The prompt has more bytes than the model's positions can hold, whatever its tokens are.
    #[error("`{param}` has {bytes} bytes; the {positions} positions of the model hold at most {most}")]
    PromptTooLong {
        /// The field.
        param: &'static str,
        /// The length of the prompt.
        bytes: usize,
        /// Positions of the model.
        positions: u32,
        /// The most bytes that fit.
        most: usize,
    },
    /// The service has no model of this name.
    #[error("there is no model `{asked}`; this service has `{known}`")]
    UnknownModel {
        /// The name in the request.
        asked: String,
        /// The name of the service's model.
        known: String,
    },
    /// The address does not exist.
    #[error("there is nothing at {0}")]
    NoSuchPath(String),
    /// The address does not accept this method.
    #[error("{0} is not allowed here")]
    Method(String),
    /// The queue of waiting requests is full.
    #[error("too many requests wait; try again in {} s", seconds(*retry_after))]
    Overloaded {
        /// The estimated time until the queue has room.
        retry_after: Duration,
    },
    /// The request waited longer than its limit.
    #[error("the request waited for longer than it may")]
    Expired,
    /// An actor died, or the graph broke, while the request was in flight. A new graph is being built.
    #[error("the model was lost while it worked on this request, and is being rebuilt: {cause}")]
    Lost {
        /// The cause, with the actor's name.
        cause: String,
    },
    /// The service is shutting down.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The model refused this request, or failed on it alone.
    #[error("the model failed: {cause}")]
    Failed {
        /// The message of the model.
        cause: String,
    },
}

/// Returns whole seconds, at least one, because `Retry-After` has no fractions.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs_f64().ceil().max(1.0) as u64
}

impl Error {
    /// Creates the error of an invalid field.
    pub fn field(param: &'static str, problem: impl Into<String>) -> Error {
        Error::Field {
            param,
            problem: problem.into(),
        }
    }

    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Error::Malformed(_)
            | Error::Framing(_)
            | Error::Host(_)
            | Error::Field { .. }
            | Error::ContextLength { .. }
            | Error::PromptTooLong { .. } => StatusCode::BAD_REQUEST,
            Error::Body(_) => StatusCode::REQUEST_TIMEOUT,
            Error::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::UnknownModel { .. } | Error::NoSuchPath(_) => StatusCode::NOT_FOUND,
            Error::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Error::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::Expired | Error::Lost { .. } | Error::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Error::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the code for programs, if OpenAI has one or a program may need to distinguish the case.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Error::ContextLength { .. } | Error::PromptTooLong { .. } => Some("context_length_exceeded"),
            Error::UnknownModel { .. } => Some("model_not_found"),
            Error::TooLarge { .. } => Some("request_too_large"),
            Error::Overloaded { .. } => Some("queue_full"),
            Error::Expired => Some("queue_timeout"),
            Error::Lost { .. } => Some("model_lost"),
            Error::ShuttingDown => Some("shutting_down"),
            _ => None,
        }
    }

    fn param(&self) -> Option<&'static str> {
        match self {
            Error::Field { param, .. } | Error::PromptTooLong { param, .. } => Some(param),
            Error::UnknownModel { .. } => Some("model"),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self.status() {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// Returns the JSON object, sent as the body of an answer or as an event in a stream.
    pub fn to_json(&self) -> serde_json::Value {
        json!({"error": {
            "message": self.to_string(),
            "type": self.kind(),
            "param": self.param(),
            "code": self.code(),
        }})
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status(), json_type(), self.to_json().to_string()).into_response();
        let again = match self {
            Error::Overloaded { retry_after } => Some(seconds(retry_after)),
            Error::Lost { .. } | Error::Expired | Error::ShuttingDown => Some(1),
            _ => None,
        };
        if let Some(seconds) = again {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns the header of every JSON answer.
pub(crate) fn json_type() -> [(header::HeaderName, HeaderValue); 1] {
    [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]
}
