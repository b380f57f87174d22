//! Write-once values: a reference without a function, whose value is set by whoever comes first.

use std::sync::Arc;

use selvedge_channels::{Traits, Wire};

use super::content::ObjectValue;
use super::error::FetchError;
use super::fetch::Fetched;
use super::name::NamedRef;
use super::ref_type::Ref;
use super::transit;
use crate::body::Body;
use crate::call::request::CALL_TIMEOUT;
use crate::failure::Failure;

/// The reason that a value was not set.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The reference has a value already, or a failure in its place.
    #[error(
        "{id} has a value already, or a failure in its place, which `fetch` returns: a value is set only once"
    )]
    AlreadySet {
        /// The reference.
        id: NamedRef,
    },
    /// The value cannot be encoded for the process that is to hold it.
    #[error("the value of {id} cannot be passed: {failure}")]
    Unwritable {
        /// The reference.
        id: NamedRef,
        /// The failure.
        failure: Failure,
    },
    /// The owner has not answered, so it is not known whether the value is set; or the runtime was shut down.
    #[error("the value was perhaps not set: {0}")]
    NoAnswer(FetchError),
}

selvedge_channels::debug_is_report!(SetError);

impl<T: Wire> Ref<T> {
    /// Sets the value of a reference that has none, in any process: that of [`Worker::unset`](crate::Worker::unset), or of a
    /// function that has not ended, whose own value is dropped then. A value that is set from another process is
    /// there for `local` and for `#[here]` parameters once its owner has fetched it.
    ///
    /// # Errors
    /// [`SetError::AlreadySet`] if there is a value or a failure: the first one counts.
    pub fn set(&self, value: T) -> Result<(), SetError> {
        let id = self.named();
        if let Some(table) = self.handle.owner_table() {
            let content = ObjectValue::new(value, const { &Traits::LETTER });
            return match Arc::clone(table).set(self.id(), content) {
                true => Ok(()),
                false if self.handle.is_stopped() => Err(SetError::NoAnswer(FetchError::Shutdown { id })),
                false => Err(SetError::AlreadySet { id }),
            };
        }
        let (body, handles) =
            transit::leaving(|| Failure::catch(|| Body::encoded(&value, const { &Traits::LETTER })));
        let body = body.map_err(|failure| SetError::Unwritable { id, failure })?;
        let object = Arc::clone(&self.handle);
        let answered = self.asked(CALL_TIMEOUT, |table| table.ask_to_set(object, body, handles));
        match answered.map_err(SetError::NoAnswer)? {
            Ok(Fetched::Ready(true)) => Ok(()),
            Ok(Fetched::Ready(false)) => Err(SetError::AlreadySet { id }),
            other => Err(SetError::NoAnswer(self.unanswered(other))),
        }
    }
}
