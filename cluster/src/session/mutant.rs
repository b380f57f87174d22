//! Faults that a model must find.

/// A fault of a session; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mutant {
    /// The product.
    None,
    /// Each link has a sequence of its own, as if duplicates were recognised by connection.
    SequencePerLink,
    /// A message behind a gap is acknowledged.
    AcknowledgesEarly,
    /// A message behind a gap is delivered.
    DeliversEarly,
    /// A message that was handed to a link is reported as not sent.
    ForgetsHandOver,
}
