//! Arguments of remote functions: what may be written where a function takes a `T`.

/// A value that may be passed where a remote function takes a `T`: a `T`, or what a `T` is made of by cloning. A parameter
/// `&str` takes what a `String` takes, `&[T]` what a `Vec<T>` takes, and `&T` what a `T` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of type `{T}`",
    label = "expected `{T}`",
    note = "a parameter of type `T` takes a `T` or a `&T`; one of type `&str` a `&str` or a `String`, and one of type `&[T]` a \
            `&[T]`, an array or a `Vec<T>`"
)]
pub trait IntoArgument<T> {
    /// The value that is passed.
    fn into_argument(self) -> T;
}

impl<T> IntoArgument<T> for T {
    fn into_argument(self) -> T {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone> IntoArgument<T> for &T {
    fn into_argument(self) -> T {
        self.clone()
    }
}

#[diagnostic::do_not_recommend]
impl IntoArgument<String> for &str {
    fn into_argument(self) -> String {
        self.to_owned()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone> IntoArgument<Vec<T>> for &[T] {
    fn into_argument(self) -> Vec<T> {
        self.to_vec()
    }
}

#[diagnostic::do_not_recommend]
impl<T, const N: usize> IntoArgument<Vec<T>> for [T; N] {
    fn into_argument(self) -> Vec<T> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone, const N: usize> IntoArgument<Vec<T>> for &[T; N] {
    fn into_argument(self) -> Vec<T> {
        self.to_vec()
    }
}
