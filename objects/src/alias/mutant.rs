//! Faults that a model must find.

/// A fault of aliases; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AliasMutant {
    /// The product.
    None,
    /// The chain of the target is not looked at before an alias is made.
    WalksNothing,
    /// A reference may get another target.
    DecidesTwice,
    /// A target does not learn of its aliases.
    ForgetsAliases,
    /// An alias counts as decided before the owner of its target has answered.
    DecidesEarly,
    /// Every alias that finds a circle gives way, so two that meet both do.
    BothGiveWay,
    /// An alias that finds a circle of undecided ones is made.
    NobodyGivesWay,
    /// The aliases that wait for another one to be decided are not told.
    TellsNobody,
}
