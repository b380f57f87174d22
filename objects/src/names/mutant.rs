//! Faults that the model must find.

/// A fault of the table of names; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameMutant {
    /// The product.
    None,
    /// A name is there before the owner holds the object.
    NamesAtOnce,
    /// A name that is given twice has the second object.
    LastWins,
    /// A name that is about to be there is given to another object too.
    ForgetsTheAsked,
    /// An owner is not told that an object has lost its name.
    UnholdsNothing,
    /// A name outlives the owner of its object.
    KeepsTheDead,
    /// A namer that waits for an owner's answer is not told of the owner's death.
    TellsNobody,
    /// An owner is told that an object has lost its name before the change is recorded.
    UnholdsFirst,
    /// The namer is answered before the change is recorded.
    AnswersFirst,
    /// A process that holds an object for a name that is not there goes on to hold it.
    KeepsStrangers,
    /// A process that joins a head which was started again is not asked what it holds.
    RecallsNothing,
    /// An owner holds an object for a head that is dead, after the next one has asked what is held.
    HeedsTheDead,
    /// A head that was started again counts its namings as the one before.
    RepeatsNamings,
}
