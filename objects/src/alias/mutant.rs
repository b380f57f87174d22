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
    /// Whoever finds a circle gives way, so that two that meet both do.
    BothGiveWay,
    /// Whoever finds a circle of undecided aliases stays.
    NobodyGivesWay,
    /// Those who wait for an alias to be decided are not told.
    TellsNobody,
}
