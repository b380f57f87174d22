//! Mistakes that the exploration of the members has to find (`tests/members.rs`).

/// A mistake of the broker, or of the table of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MemberMutant {
    #[default]
    None,
    /// The broker makes another link for each side that asks.
    LinksTwice,
    /// The broker notes a link that it does not make.
    LinksNever,
    /// The broker tells nobody of a death.
    BuriesSilently,
    /// The broker does not answer who asks for a process that is dead.
    LeavesWaiting,
    /// A worker forgets who is dead.
    Resurrects,
}
