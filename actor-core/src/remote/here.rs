//! Parameters with `#[here]`: the function runs in the process where the value lives, and borrows the value there.

use std::ops::Deref;
use std::sync::Arc;

use crate::reference::Ref;

/// A reference that may be passed where a remote function takes a `T` with `#[here]`: a [`Ref<T>`](Ref), or a borrow of one. The
/// call goes to the process where the value lives, and the function starts once the value is made.
/// The trait cannot be implemented outside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reference to a `{T}`",
    label = "expected a `Ref<{T}>`",
    note = "a parameter with `#[here]` takes a `Ref` or a `&Ref`, which `keep` returns: the function runs where the value lives"
)]
pub trait IntoReference<T> {
    /// The reference that is passed.
    #[doc(hidden)]
    fn into_reference(self) -> Ref<T>;
}

#[diagnostic::do_not_recommend]
impl<T> IntoReference<T> for Ref<T> {
    fn into_reference(self) -> Ref<T> {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<T> IntoReference<T> for &Ref<T> {
    fn into_reference(self) -> Ref<T> {
        self.clone()
    }
}

/// The argument for a parameter with `#[here]`: the owner's own value.
#[derive(Debug)]
pub struct ValueHere<T>(pub(crate) Arc<T>);

impl<T> ValueHere<T> {
    /// The value, for a parameter of type `Arc<T>`.
    #[must_use]
    pub fn shared(self) -> Arc<T> {
        self.0
    }
}

impl<T> Deref for ValueHere<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
