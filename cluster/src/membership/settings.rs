//! Times of the membership.

use std::time::Duration;

/// Times of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberSettings {
    /// The silence after which the head declares a member dead. It is suspected after half of that.
    pub silence_timeout: Duration,
    /// The time between two signs of life of a process that has nothing else to say.
    pub heartbeat: Duration,
    /// The silence of the head after which a process ends itself.
    pub orphaned_after: Duration,
    /// The time in which a link that is needed has to be made.
    pub link_within: Duration,
}

impl Default for MemberSettings {
    /// 10 s; 1 s; 60 s; 60 s.
    fn default() -> Self {
        MemberSettings {
            silence_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(1),
            orphaned_after: Duration::from_secs(60),
            link_within: Duration::from_secs(60),
        }
    }
}
