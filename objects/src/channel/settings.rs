//! Limits of a channel.

/// Limits of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelSettings {
    /// The number of values that puts store. With 0, a put waits for a taker. A value on its way to a taker takes no room;
    /// when it comes back, there may be more values than this for a while.
    pub capacity: usize,
    /// The number of requests that one process may have open: those that wait, and takes that are not acknowledged.
    pub requests_max: usize,
}

impl ChannelSettings {
    /// A channel of this capacity, with the default limit of requests.
    pub fn with_capacity(capacity: usize) -> Self {
        ChannelSettings {
            capacity,
            ..ChannelSettings::default()
        }
    }
}

impl Default for ChannelSettings {
    /// One value; 65 536 requests.
    fn default() -> Self {
        ChannelSettings {
            capacity: 1,
            requests_max: 1 << 16,
        }
    }
}
