//! The meaning of an owner's answer for the process that has asked.

use bytes::Bytes;
use selvedge_objects::store::StoreError;

use super::content::{AnyShared, Content, ObjectValue, again};
use super::error::FetchError;
use super::fetch::Fetched;
use super::handle::Handle;
use super::name::NamedRef;
use super::transit::{self, CARRIED_BYTES_MAX};
use crate::actor::registry::typed;
use crate::failure::{Failure, FailureReport};
use crate::process_name::ProcessName;
use crate::promise::NoAnswer;

// None of this is generic over the type of the value, so that a program has it once.
impl Handle {
    /// The content of an object of this process, as its waiters see it. Errors name the object `id`.
    pub(super) fn made(
        &self,
        id: NamedRef,
        content: Result<Content, NoAnswer>,
    ) -> Result<ObjectValue, FetchError> {
        match content {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(FetchError::Failed {
                id,
                failure: typed(again(&failure)),
            }),
            Err(_) if self.is_stopped() => Err(FetchError::Shutdown { id }),
            Err(_) => Err(FetchError::Freed { id }),
        }
    }

    /// Decodes what the owner has answered, and keeps it. User code runs here: `Deserialize`, which `decode` calls.
    pub(super) fn read(
        &self,
        id: NamedRef,
        fetched: Result<Fetched, NoAnswer>,
        decode: &dyn Fn(&Bytes) -> Result<AnyShared, Failure>,
    ) -> Result<AnyShared, FetchError> {
        let unreadable = |failure| FetchError::Unreadable { id, failure };
        match fetched {
            Ok(Fetched::Value { bytes, handles }) => {
                let is_short = handles.is_empty() && bytes.len() <= CARRIED_BYTES_MAX;
                let value = transit::arriving(handles, || decode(&bytes)).map_err(unreadable)?;
                if is_short {
                    // Not a view, which would hold the whole buffer that was received.
                    self.keep_encoded(Bytes::copy_from_slice(&bytes));
                }
                Ok(self.keep(value))
            }
            Ok(Fetched::Stored { pin, handles }) => {
                let bytes = pin.bytes();
                let bytes = bytes.map_err(|error| unreadable(Failure::from_error(error)))?;
                let value = transit::arriving(handles, || decode(&bytes)).map_err(unreadable)?;
                Ok(self.view().keep(value))
            }
            other => Err(self.unanswered(id, other)),
        }
    }

    /// The error of a question that was not answered as was asked.
    pub(super) fn unanswered(&self, id: NamedRef, answer: Result<Fetched, NoAnswer>) -> FetchError {
        match answer {
            Ok(Fetched::Failed(report)) => FetchError::Failed {
                id,
                failure: reported(report),
            },
            Ok(Fetched::Unreadable(report)) => FetchError::Unreadable {
                id,
                failure: reported(report),
            },
            Ok(Fetched::Unstored(_)) if self.is_stopped() => FetchError::Shutdown { id },
            Ok(Fetched::Unstored(error)) => FetchError::Stored { id, error },
            Ok(Fetched::Freed) | Err(NoAnswer::Taken) => FetchError::Freed { id },
            Ok(Fetched::OwnerLost) => FetchError::OwnerLost {
                id,
                owner: self.owner_name(),
                end: self.table().and_then(|table| table.end(self.id().owner)),
            },
            Err(NoAnswer::Broken) => FetchError::Shutdown { id },
            Ok(Fetched::CreateTimedOut) => FetchError::CreateTimedOut { id },
            Ok(Fetched::Unreachable(error)) => FetchError::Unreachable {
                id,
                owner: self.owner_name(),
                reason: error.to_string(),
            },
            Ok(Fetched::OutOfReach) => FetchError::Stored {
                id,
                error: StoreError::NoStore,
            },
            Ok(Fetched::Value { .. } | Fetched::Stored { .. } | Fetched::Ready(_)) => {
                FetchError::Unreadable {
                    id,
                    failure: Failure::Internal("the owner has answered another question".to_owned()),
                }
            }
        }
    }

    /// The owner, as errors name it.
    fn owner_name(&self) -> ProcessName {
        let owner = self.id().owner.process;
        match self.table() {
            Some(table) => table.name(owner),
            None => ProcessName::of_number(owner),
        }
    }
}

/// The failure that another process reports, with the user's own error in it if serde knows the error's type.
fn reported(report: FailureReport) -> Failure {
    typed(Failure::from_error(report))
}
