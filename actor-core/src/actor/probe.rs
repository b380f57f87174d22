//! The probe by which generated code finds out whether a type that it does not know implements a trait. With all traits of a question
//! in scope, method lookup finds the one that is implemented for the probe itself, and one reference further the next one.

use std::marker::PhantomData;

/// A probe that tells something of the type `T`. See the documentation of the module.
pub struct TypeProbe<T>(PhantomData<fn() -> T>);

impl<T> TypeProbe<T> {
    /// Creates a probe, which has no data.
    #[must_use]
    pub const fn of() -> Self {
        Self(PhantomData)
    }
}
