//! Faults that a model must find.

/// A fault of the membership; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MemberMutant {
    /// The product.
    None,
    /// A process that was declared dead becomes a member again when it dials.
    Resurrects,
    /// The number of a removed process is given again.
    ReusesNumbers,
    /// A notice that comes again is applied again.
    AppliesAgain,
    /// A link that replaces another one does not end it.
    KeepsBothLinks,
    /// Frames are acted upon before the handshake has ended.
    AdmitsStrangers,
}
