//! The meaning of an owner's answer for the process that has asked.

use selvedge_objects::store::StoreError;

use super::content::{Content, ObjectValue, again};
use super::error::FetchError;
use super::fetch::Fetched;
use super::ref_type::Ref;
use crate::actor::registry::typed;
use crate::failure::{Failure, FailureReport};
use crate::process_name::ProcessName;
use crate::promise::NoAnswer;

impl<T> Ref<T> {
    /// The content of an object of this process, as its waiters see it.
    pub(super) fn made(&self, content: Result<Content, NoAnswer>) -> Result<ObjectValue, FetchError> {
        let id = self.named();
        match content {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(FetchError::Failed {
                id,
                failure: typed(again(&failure)),
            }),
            Err(_) => Err(FetchError::Freed { id }),
        }
    }

    /// The error of a question that was not answered as was asked.
    pub(super) fn unanswered(&self, answer: Result<Fetched, NoAnswer>) -> FetchError {
        let id = self.named();
        match answer {
            Ok(Fetched::Failed(report)) => FetchError::Failed {
                id,
                failure: reported(report),
            },
            Ok(Fetched::Unreadable(report)) => FetchError::Unreadable {
                id,
                failure: reported(report),
            },
            Ok(Fetched::Unstored(error)) => FetchError::Stored { id, error },
            Ok(Fetched::Freed) | Err(NoAnswer::Taken) => FetchError::Freed { id },
            Ok(Fetched::OwnerLost) => FetchError::OwnerLost {
                id,
                owner: self.owner_name(),
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
}

impl<T> Ref<T> {
    /// The owner, as errors name it.
    fn owner_name(&self) -> ProcessName {
        let owner = self.owner().process;
        match self.table() {
            Ok(table) => table.name(owner),
            Err(_) => ProcessName::of_number(owner),
        }
    }
}

/// The failure that another process reports, with the user's own error in it if serde knows the error's type.
fn reported(report: FailureReport) -> Failure {
    typed(Failure::from_error(report))
}
