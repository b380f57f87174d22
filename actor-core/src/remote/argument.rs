//! Arguments of remote functions: what may be written where a function takes a `T`, and how a reference becomes its value.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Wire;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::reference::{FetchError, Ref};

/// A value that may be passed where a remote function takes a `T`: a `T`, or what a `T` is made of by cloning. A parameter
/// `&str` takes what a `String` takes, `&[T]` what a `Vec<T>` takes, and `&T` what a `T` takes. Each of them takes a
/// [`Ref`] to such a value as well: the value is fetched where the function runs, before it runs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of type `{T}`",
    label = "expected `{T}`",
    note = "a parameter of type `T` takes a `T`, a `&T` or a `Ref<T>`; one of type `&str` a `&str` or a `String`, and one of type `&[T]` a \
            `&[T]`, an array or a `Vec<T>`"
)]
pub trait IntoArgument<T> {
    /// The value that is passed.
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
pub enum Argument<T> {
    /// The value.
    Value(T),
    /// A reference, whose value is fetched where the function runs.
    Reference(Ref<T>),
}

impl<T: Wire> Argument<T> {
    /// The value. Waits until it is made, or lost, or this process ends.
    fn resolve(self) -> Result<T, Failure> {
        match self {
            Argument::Value(value) => Ok(value),
            Argument::Reference(reference) => owned(reference.fetch_timeout(Duration::MAX)),
        }
    }

    async fn resolved(self) -> Result<T, Failure> {
        match self {
            Argument::Value(value) => Ok(value),
            Argument::Reference(reference) => owned((&reference).await),
        }
    }
}

fn owned<T: Wire>(fetched: Result<Arc<T>, FetchError>) -> Result<T, Failure> {
    match fetched {
        Ok(value) => Ok(Arc::unwrap_or_clone(value)),
        Err(FetchError::Failed { failure, .. }) => Err(failure),
        Err(other) => Err(Failure::from_error(other)),
    }
}

/// The arguments of a function: a tuple of values that may cross processes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross a process",
    label = "not a wire type",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing"
)]
pub trait ArgumentTuple: Sized {
    /// The arguments on their way.
    type Passed: Wire;

    /// The values; waits for those that references refer to.
    ///
    /// # Errors
    /// The failure of the first reference without a value.
    fn resolve(passed: Self::Passed) -> Result<Self, Failure>;

    /// The values, in an async function.
    ///
    /// # Errors
    /// The failure of the first reference without a value.
    fn resolved(passed: Self::Passed) -> impl Future<Output = Result<Self, Failure>>;
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($name: Wire),*> ArgumentTuple for ($($name,)*) {
            type Passed = ($(Argument<$name>,)*);

            #[allow(non_snake_case, reason = "a name for the type and for the value")]
            fn resolve(($($name,)*): Self::Passed) -> Result<Self, Failure> {
                Ok(($($name.resolve()?,)*))
            }

            #[allow(non_snake_case, reason = "a name for the type and for the value")]
            async fn resolved(($($name,)*): Self::Passed) -> Result<Self, Failure> {
                Ok(($($name.resolved().await?,)*))
            }
        }
    )* };
}

tuples! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) (A B C D E F G H I)
    (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L) (A B C D E F G H I J K L M)
    (A B C D E F G H I J K L M N) (A B C D E F G H I J K L M N O) (A B C D E F G H I J K L M N O P)
}
