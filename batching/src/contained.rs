//! Catching of panics: user code may panic, and the thread that serves all clients goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::BatchError;

/// Runs user code and catches its panic. The error names the code (`what`) that panicked.
pub(crate) fn contained<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, BatchError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| BatchError::Panicked {
        what,
        message: message(panic.as_ref()),
    })
}

/// Drops values of user-defined types, one by one: a drop that panics does not keep the others from being dropped.
pub(crate) fn discard<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let _ = contained("a value's drop", || drop(value));
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}
