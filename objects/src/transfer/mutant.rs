//! Faults that the model must find.

/// A fault of transfers; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TransferMutant {
    /// The product.
    None,
    /// A second wish for an object begins a second pull.
    PullsTwice,
    /// A pull begins anew with its next source.
    StartsAnew,
    /// A pull ends with its first source.
    HasOneSource,
    /// A pull ends with the sources that the owner named at first.
    SeeksOnce,
    /// A chunk counts whoever sends it, and whether or not it was asked for.
    TakesAnyChunk,
    /// An object is sealed whatever its checksum is.
    SealsUnchecked,
    /// All chunks are asked for at once.
    KnowsNoCredits,
    /// The word that an object is freed does not end its pull.
    PullsOn,
    /// The death of the owner is told to nobody who waits.
    TellsNobody,
    /// A notice about a copy counts whichever attempt it names.
    HeedsStaleNotices,
    /// A notice of a process that is buried counts.
    HeedsTheBuried,
    /// A copy whose author is dead waits for ever.
    KeepsOrphans,
    /// A copy of the owner that cannot be read for the moment counts as lost.
    LosesWhatIsOutOfReach,
}
