//! Faults that a model must find.

/// A fault of the protocol; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mutant {
    /// The product.
    None,
    /// A parent does not wait for its children.
    NoParents,
    /// The creator is listed after the function has run, not before.
    ListsCreatorLate,
    /// A registration that was struck off is listed again by a late copy of its question.
    NoTombstones,
    /// A reference that arrives joins an entry whether or not the owner has confirmed that.
    MergesBlindly,
    /// The low number does not wait for answers.
    LowMovesEarly,
    /// A parcel that is thrown away undecoded keeps its handle.
    ForgetsParcels,
    /// A reference that goes to its owner has no parent meanwhile.
    NoPhantom,
    /// A release that waits for its bundle goes out although the reference has arrived anew.
    ReleasesRevived,
    /// A call runs before its references are confirmed.
    RunsEarly,
    /// A death strikes nothing off the lists.
    KeepsTheDead,
    /// A child whose parent died is listed for an object that was freed.
    ListsFreed,
    /// A user that was told that the object is gone may be listed by a late copy of its question.
    ForgetsRefusals,
    /// An object whose creator died before its call came is awaited for ever.
    AwaitsTheDead,
    /// An object whose creator died while its call waited is awaited for ever.
    ForgetsKept,
    /// A reference to an object that was lost and is made again stays lost when it arrives anew.
    StaysLost,
    /// An object that got an error when it came home keeps that when it is made again.
    StaysFailed,
    /// A process that ends releases its references without waiting for children.
    EndsHastily,
    /// A call that is refused is forgotten, with its parcels.
    RefusesSilently,
    /// Additions to an owner's list are messages without an answer, as in Julia's `Distributed`.
    AddsWithoutAnswers,
}
