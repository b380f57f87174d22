//! The types of methods' errors.
//!
//! Generated code does not know whether serde knows the error of a method, so it asks an [`ErrorProbe`], as it asks
//! [`TypeProbe`](crate::TypeProbe) about tuples: with both traits in scope, method lookup finds [`TypedError`] if serde
//! knows `E`, and, one reference further, [`OpaqueError`] for every other error.

use std::error::Error;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error_codec::ErrorCodec;
use crate::{BoxError, Failure};

/// A probe that tells whether errors of type `E` can be encoded. See the documentation of the module.
pub struct ErrorProbe<E>(PhantomData<fn() -> E>);

impl<E> ErrorProbe<E> {
    /// Creates the probe for the type of an error.
    #[must_use]
    pub fn of(_: &E) -> Self {
        ErrorProbe(PhantomData)
    }

    /// Creates the probe for the errors of a method. The method is not called.
    pub fn of_method<T>(_: impl FnOnce() -> Result<T, E>) -> Self {
        ErrorProbe(PhantomData)
    }

    /// Creates the probe for the errors of an async method. The method is not called.
    pub fn of_async_method<T, F: Future<Output = Result<T, E>>>(_: impl FnOnce() -> F) -> Self {
        ErrorProbe(PhantomData)
    }
}

/// The answers of [`ErrorProbe`] for errors that serde can encode.
pub trait TypedError<E> {
    /// The codec of the type.
    fn codec(&self) -> Option<&'static ErrorCodec>;

    /// The failure of a method that returned the error.
    fn failure(&self, error: E) -> Failure;
}

impl<E: Error + Serialize + DeserializeOwned + Send + Sync + 'static> TypedError<E> for ErrorProbe<E> {
    fn codec(&self) -> Option<&'static ErrorCodec> {
        Some(const { &ErrorCodec::of::<E>() })
    }

    fn failure(&self, error: E) -> Failure {
        Failure::encodable(Arc::new(error), const { &ErrorCodec::of::<E>() })
    }
}

/// An error that a method may return: any that converts into a boxed one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error that a method or function can return",
    label = "a method or function fails with `{Self}`",
    note = "implement `std::error::Error` for it (and `Send` and `Sync`), or return `selvedge::Result`"
)]
pub trait MethodError: Into<BoxError> {}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> MethodError for E {}

/// The answers of [`ErrorProbe`] for all other errors.
pub trait OpaqueError<E> {
    /// Returns `None`: serde does not know the type.
    fn codec(&self) -> Option<&'static ErrorCodec>;

    /// The failure of a method that returned the error.
    fn failure(&self, error: E) -> Failure
    where
        E: MethodError;
}

impl<E> OpaqueError<E> for &ErrorProbe<E> {
    fn codec(&self) -> Option<&'static ErrorCodec> {
        None
    }

    fn failure(&self, error: E) -> Failure
    where
        E: MethodError,
    {
        Failure::from_error(error)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize, thiserror::Error)]
    #[error("known")]
    struct Known;

    #[test]
    fn the_probe_tells_errors_that_serde_knows_from_others() {
        assert!(ErrorProbe::of(&Known).codec().is_some());
        assert!((&ErrorProbe::of(&std::io::Error::other("no"))).codec().is_none());
        assert!(
            (&ErrorProbe::of(&"text".to_owned())).codec().is_none(),
            "text is no `Error`"
        );
        let of_method = ErrorProbe::of_method(|| Err::<(), Known>(Known));
        assert_eq!(
            of_method.codec().unwrap().type_name(),
            std::any::type_name::<Known>()
        );
    }
}
