//! The messages of calls, service 16.

use bytes::Bytes;
use selvedge_cluster::frame::{Class, Service};
use selvedge_objects::refs::Parcel;
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::failure::{Failure, FailureReport};
use crate::hub::post::Letter;
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionId, Wants};
use crate::store::message::FarObject;
use crate::task::options::Submission;
use crate::task::outer::CallName;

/// The service of calls.
pub(crate) const CALLS: Service = Service(16);

/// The head of a letter between the services of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallMessage {
    /// Asks for a function. Body: the arguments.
    Call {
        call: CallId,
        function: FunctionId,
        wants: Wants,
        /// The name of a submitted call that may run again.
        name: Option<CallName>,
        /// The references in the arguments, after the one of a value to be kept.
        parcels: Vec<Parcel>,
    },
    /// The function has returned. Body: the value, or nothing if only the end was wanted.
    Value {
        call: CallId,
        /// The references in the value.
        parcels: Vec<Parcel>,
    },
    /// The submitted function has returned a value, which lies in the store of its host. No body.
    Stored {
        call: CallId,
        /// The references in the value.
        parcels: Vec<Parcel>,
        object: FarObject,
    },
    /// The function gave no value. Body: a [`Fault`].
    Fault { call: CallId },
    /// The caller does not want the answer. No body.
    Cancel { call: CallId },
    /// The sender does not want the value of a submitted call, but its end. No body.
    Interrupt { call: CallId },
    /// Takes a submitted call back, unless its function has begun: an input of it is lost. No body.
    Withdraw { call: CallId },
    /// A submitted call waits for something, and others may have its cpus for the time; or it goes on. No body.
    Blocked { call: CallId, is_blocked: bool },
    /// The user says that the process has room for submitted calls that need so many cpus together. No body.
    Offered { cpus: u32 },
    /// Submits a call to the process that schedules. Body: the arguments.
    Submit {
        submission: Submission,
        /// The reference to the value, and then those in the arguments.
        parcels: Vec<Parcel>,
    },
}

/// The reason that a function gave no value, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    Failed(FailureReport),
    Arguments(FailureReport),
    /// The process has no such function, but functions with these paths.
    Unknown {
        known: Vec<String>,
    },
    WorkerInit(FailureReport),
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    Overloaded {
        limit: u32,
    },
    NoThread(String),
    /// The call was withdrawn before its function had begun.
    Withdrawn,
}

impl CallMessage {
    /// The letter with this head.
    pub(crate) fn letter(&self, body: impl Into<Body>) -> Letter {
        Letter {
            stream: self.stream(),
            ..Letter::new(CALLS, Class::Ordered, self, body)
        }
    }

    /// Letters about one call keep their order: the call and the letters that cancel, interrupt or withdraw it; the answer and, before
    /// it, what its function says (it waits, it submits calls). Everything else may overtake a long body. The numbers of answers are the
    /// peer's own, so they have other streams.
    fn stream(&self) -> u64 {
        match self {
            CallMessage::Call { call, .. }
            | CallMessage::Cancel { call }
            | CallMessage::Interrupt { call }
            | CallMessage::Withdraw { call } => call.0 << 1,
            CallMessage::Value { call, .. }
            | CallMessage::Stored { call, .. }
            | CallMessage::Fault { call } => call.0 << 1 | 1,
            // Before the answer of the call, which has the same stream.
            CallMessage::Blocked { call, .. } => call.0 << 1 | 1,
            // Before the answer of the call that submits it, and after what that has submitted before.
            CallMessage::Submit { submission, .. } => match submission.nested {
                Some(nested) => nested.letter << 1 | 1,
                None => submission.call.0 << 1,
            },
            // It belongs to no call, whose numbers begin with 1.
            CallMessage::Offered { .. } => 0,
        }
    }

    /// The head of a letter; `None` if its bytes are none.
    pub(crate) fn of(letter: &Letter) -> Option<Self> {
        match postcard::take_from_bytes(&letter.head) {
            Ok((message, [])) => Some(message),
            _ => None,
        }
    }
}

impl Fault {
    /// The fault as bytes.
    pub(crate) fn encode(&self) -> Bytes {
        // Plain data always encodes.
        postcard::to_allocvec(self).unwrap_or_default().into()
    }

    /// Reads a fault. Bytes that are none are a fault too.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        match postcard::take_from_bytes(bytes) {
            Ok((fault, [])) => fault,
            _ => Fault::Failed(
                Failure::Internal("the answer is an error that cannot be read".to_owned()).report(),
            ),
        }
    }
}

impl From<RemoteError> for Fault {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Failed(failure) => Fault::Failed(failure.into_report()),
            RemoteError::Arguments(report) => Fault::Arguments(report),
            RemoteError::WorkerInit(report) => Fault::WorkerInit(report),
            RemoteError::UnknownFunction { near } => Fault::Unknown { known: near },
            RemoteError::TooLarge { bytes, limit } => Fault::TooLarge { bytes, limit },
            RemoteError::Overloaded { limit } => Fault::Overloaded {
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            },
            RemoteError::NoThread(why) => Fault::NoThread(why),
            RemoteError::Cancelled => Fault::Withdrawn,
            other => Fault::Failed(Failure::from_error(other).into_report()),
        }
    }
}

impl From<Fault> for RemoteError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Failed(report) => RemoteError::Failed(Failure::from_error(report)),
            Fault::Arguments(report) => RemoteError::Arguments(report),
            Fault::Unknown { known } => RemoteError::UnknownFunction { near: known },
            Fault::WorkerInit(report) => RemoteError::WorkerInit(report),
            Fault::TooLarge { bytes, limit } => RemoteError::TooLarge { bytes, limit },
            Fault::Overloaded { limit } => RemoteError::Overloaded {
                limit: usize::try_from(limit).unwrap_or(usize::MAX),
            },
            Fault::NoThread(why) => RemoteError::NoThread(why),
            Fault::Withdrawn => RemoteError::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_its_cancellation_are_one_stream_and_nothing_waits_for_the_body_of_another() {
        let stream = |message: CallMessage| message.letter(Body::EMPTY).stream;
        let asked = |call| {
            stream(CallMessage::Call {
                call,
                function: FunctionId(1),
                wants: Wants::Value,
                name: None,
                parcels: Vec::new(),
            })
        };
        let answered = |call| {
            let parcels = Vec::new();
            stream(CallMessage::Value { call, parcels })
        };
        let [call, other] = [5, 6].map(CallId);
        assert_eq!(asked(call), stream(CallMessage::Cancel { call }));
        assert_ne!(asked(call), asked(other));
        assert_ne!(answered(call), answered(other));
        assert_ne!(asked(call), answered(call), "this call may be the peer's");
    }
}
