//! Faults that a model must find.

/// A fault of the channel; only tests set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ChannelMutant {
    /// The product.
    None,
    /// A taker's death loses what it has not acknowledged.
    ForgetsReserved,
    /// A value that comes back goes behind all others.
    ReturnsToTheBack,
    /// The newest value is delivered first.
    TakesTheNewest,
    /// A put is confirmed before there is room for it.
    ConfirmsEarly,
    /// Closing forgets those who wait to put.
    ForgetsPutters,
    /// Closing forgets those who wait for values.
    ForgetsTakers,
    /// Closing throws stored values away.
    ClosesAtOnce,
    /// Closing tells takers that the channel is empty although a value may come back.
    ForgetsTheUnacknowledged,
    /// Cancelling a take whose value is on its way has no effect.
    IgnoresLateCancels,
    /// A value stays in the queue while it is on its way.
    DeliversTwice,
    /// A put into a channel without room is confirmed before any taker has the value.
    ConfirmsWithoutTaker,
}
