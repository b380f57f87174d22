//! Faults that a model must find.

/// A fault of aliases; only tests set one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum AliasMutant {
    /// The product.
    #[default]
    None,
    /// The chain of the target is not looked at before an alias is made.
    WalksNothing,
    /// A reference may get another target.
    DecidesTwice,
    /// A target does not learn of its aliases.
    ForgetsAliases,
}
