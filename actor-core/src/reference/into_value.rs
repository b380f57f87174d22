//! The end of a reference: its value is fetched, and the reference given up.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Wire;

use super::error::FetchError;
use super::ref_type::Ref;
use crate::call::request::CALL_TIMEOUT;

/// The reason that [`Ref::into_value`] gave no value, and the reference, which goes on holding the value if there is one.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct IntoValueError<T> {
    /// The reference, for another attempt.
    pub reference: Ref<T>,
    /// The reason.
    pub error: FetchError,
}

impl<T> fmt::Debug for IntoValueError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

/// The reason alone. The reference is dropped.
impl<T> From<IntoValueError<T>> for FetchError {
    fn from(error: IntoValueError<T>) -> Self {
        error.error
    }
}

impl<T: Wire> Ref<T> {
    /// Fetches the value and gives the reference up: the owner drops the value once all processes have done so, or have
    /// dropped their references. Waits at most one minute for a value that is not made yet.
    ///
    /// The owner's process gets the value itself if no other reference is left anywhere, and no `Arc` of the value; otherwise
    /// the value is a clone, as it is in other processes.
    ///
    /// # Errors
    /// [`IntoValueError`], with the reference.
    pub fn into_value(self) -> Result<T, IntoValueError<T>> {
        self.into_value_timeout(CALL_TIMEOUT)
    }

    /// Fetches the value and gives the reference up like [`into_value`](Self::into_value), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`IntoValueError`], with the reference.
    pub fn into_value_timeout(self, timeout: Duration) -> Result<T, IntoValueError<T>> {
        let fetched = self.fetch_timeout(timeout);
        self.given_up(fetched)
    }

    fn given_up(self, fetched: Result<Arc<T>, FetchError>) -> Result<T, IntoValueError<T>> {
        match fetched {
            Ok(value) => {
                // The reference has an `Arc` of the value, or the table of its owner has one until then.
                drop(self);
                Ok(Arc::unwrap_or_clone(value))
            }
            Err(error) => Err(IntoValueError {
                reference: self,
                error,
            }),
        }
    }
}

/// Fetches the value and gives the reference up like [`Ref::into_value`], without a limit. `(&r).await` keeps the reference.
impl<T: Wire> IntoFuture for Ref<T> {
    type Output = Result<T, IntoValueError<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let fetched = (&self).await;
            self.given_up(fetched)
        })
    }
}
