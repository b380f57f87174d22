//! The error of a call once more: calls that travel together may end by one error, which each of them gets.

use crate::call::CallError;
use crate::call::remote_error::RemoteError;
use crate::reference::content::again;

impl CallError {
    /// The error of a call of a remote function once more, for another of the calls that ended together. `None` for a call of an actor.
    #[doc(hidden)] // for the floor of parallel work
    #[must_use]
    pub fn again(&self) -> Option<Self> {
        let CallError::Remote {
            function,
            process,
            error,
        } = self
        else {
            return None;
        };
        Some(CallError::Remote {
            function,
            process: process.clone(),
            error: Box::new(another(error)),
        })
    }
}

/// Another error like this one. The user's own error is shared.
fn another(error: &RemoteError) -> RemoteError {
    match error {
        RemoteError::Failed(failure) => RemoteError::Failed(again(failure)),
        RemoteError::Died { ran } => RemoteError::Died { ran: *ran },
        RemoteError::NoSuchProcess { living } => RemoteError::NoSuchProcess {
            living: living.clone(),
        },
        RemoteError::Elsewhere { value, called } => RemoteError::Elsewhere {
            value: *value,
            called: *called,
        },
        RemoteError::Apart { first, second } => RemoteError::Apart {
            first: *first,
            second: *second,
        },
        RemoteError::OptionWithoutEffect {
            option,
            verb,
            instead,
        } => RemoteError::OptionWithoutEffect {
            option,
            verb,
            instead,
        },
        RemoteError::UnknownFunction { near } => RemoteError::UnknownFunction { near: near.clone() },
        RemoteError::Arguments(report) => RemoteError::Arguments(report.clone()),
        RemoteError::TooLarge { bytes, limit } => RemoteError::TooLarge {
            bytes: *bytes,
            limit: *limit,
        },
        RemoteError::Backlog { bytes, limit } => RemoteError::Backlog {
            bytes: *bytes,
            limit: *limit,
        },
        RemoteError::NoLink(reason) => RemoteError::NoLink(reason.clone()),
        RemoteError::WorkerInit(report) => RemoteError::WorkerInit(report.clone()),
        RemoteError::Deadline(deadline) => RemoteError::Deadline(*deadline),
        RemoteError::Timeout(waited) => RemoteError::Timeout(*waited),
        RemoteError::Cancelled => RemoteError::Cancelled,
        RemoteError::TooManyBlocked { limit } => RemoteError::TooManyBlocked { limit: *limit },
        RemoteError::WouldBlock => RemoteError::WouldBlock,
        RemoteError::Overloaded { limit } => RemoteError::Overloaded { limit: *limit },
        RemoteError::NoThread(reason) => RemoteError::NoThread(reason.clone()),
        RemoteError::Taken => RemoteError::Taken,
        RemoteError::OnlyHead => RemoteError::OnlyHead,
        RemoteError::Shutdown => RemoteError::Shutdown,
    }
}
