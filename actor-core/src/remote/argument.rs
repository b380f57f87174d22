//! Arguments of remote functions: what may be written where a function takes a `T`.

use selvedge_channels::as_bytes;
use serde::{Deserialize, Serialize};

use crate::reference::Ref;

/// A value that may be passed where a remote function takes a `T`: a `T`, or what a `T` is made of by cloning. A parameter
/// `&str` takes what a `String` takes, `&[T]` what a `Vec<T>` takes, and `&T` what a `T` takes. Each of them takes a
/// [`Ref`] to such a value as well: the value is fetched where the function runs, before it runs.
/// The trait cannot be implemented outside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of type `{T}`",
    label = "expected `{T}`",
    note = "a parameter of type `T` takes a `T`, a `&T` or a `Ref<T>`; one of type `&str` a `&str` or a `String`, and one of type `&[T]` a \
            `&[T]`, an array or a `Vec<T>`"
)]
pub trait IntoArgument<T> {
    /// The value that is passed.
    #[doc(hidden)]
    fn into_argument(self) -> Argument<T>;
}

impl<T> IntoArgument<T> for T {
    fn into_argument(self) -> Argument<T> {
        Argument::Value(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone> IntoArgument<T> for &T {
    fn into_argument(self) -> Argument<T> {
        Argument::Value(self.clone())
    }
}

#[diagnostic::do_not_recommend]
impl IntoArgument<String> for &str {
    fn into_argument(self) -> Argument<String> {
        Argument::Value(self.to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone> IntoArgument<Vec<T>> for &[T] {
    fn into_argument(self) -> Argument<Vec<T>> {
        Argument::Value(self.to_vec())
    }
}

#[diagnostic::do_not_recommend]
impl<T, const N: usize> IntoArgument<Vec<T>> for [T; N] {
    fn into_argument(self) -> Argument<Vec<T>> {
        Argument::Value(self.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone, const N: usize> IntoArgument<Vec<T>> for &[T; N] {
    fn into_argument(self) -> Argument<Vec<T>> {
        Argument::Value(self.to_vec())
    }
}

#[diagnostic::do_not_recommend]
impl<T> IntoArgument<T> for Ref<T> {
    fn into_argument(self) -> Argument<T> {
        Argument::Reference(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T> IntoArgument<T> for &Ref<T> {
    fn into_argument(self) -> Argument<T> {
        Argument::Reference(self.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<T> IntoArgument<T> for Argument<T> {
    fn into_argument(self) -> Argument<T> {
        self
    }
}

/// An argument on its way: a value, or a reference to one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "T: Serialize + 'static",
    deserialize = "T: Deserialize<'de> + 'static"
))]
pub enum Argument<T> {
    /// The value.
    Value(#[serde(with = "as_bytes")] T),
    /// A reference, whose value is fetched where the function runs.
    Reference(Ref<T>),
}
