//! The supertrait that keeps public traits from being implemented outside, so that they may get further methods.

/// A type of this package, or a shape of several.
pub trait Sealed {}
