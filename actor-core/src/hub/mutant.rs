//! Mistakes that the exploration of the members has to find (`tests/members.rs`).

/// A mistake of the broker, or of the table of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "hosts"),
    expect(dead_code, reason = "a head of hosts is explored")
)]
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
    /// The head gives the name of a dead process to another one.
    GivesNamesAgain,
    /// The broker does not tell who comes back which others are dead.
    ForgetsSurvivors,
    /// The broker answers who asks for a member that is away that it is dead.
    TakesAwayForDead,
    /// The broker forgets who waits for a member that is away.
    ForgetsWanted,
    /// A worker forgets who is dead.
    Resurrects,
}
