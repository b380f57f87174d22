//! The user's code may panic; the thread that serves everybody goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::BatchError;

/// Runs code of the user's; its panic is an error that says `what` panicked.
pub(crate) fn contained<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, BatchError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| BatchError::Panicked {
        what,
        message: message(panic.as_ref()),
    })
}

/// Drops values of the user's, each by itself: one that panics takes no other along.
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
