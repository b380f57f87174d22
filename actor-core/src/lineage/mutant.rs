//! Faults that a model must find.

/// A fault of the lineage; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LineageMutant {
    /// The product.
    None,
    /// Results of attempts that were given up count.
    TakesStale,
    /// A call runs again without looking whether its inputs are there.
    ForgetsInputs,
    /// A call runs again although it runs already.
    RunsTwice,
    /// Retries are not counted.
    NeverSpent,
    /// A spec is forgotten as soon as nobody holds its value.
    ForgetsSpecs,
    /// Calls that are not pure run again.
    RunsImpure,
    /// A call that runs again has what it submits run again.
    AdoptsNothing,
    /// A call that is adopted is not held.
    AdoptsUnheld,
    /// Nothing is held on behalf of a call that may run again.
    HoldsNothing,
}
