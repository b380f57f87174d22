//! Limits and times of a session.

use std::time::Duration;

/// Limits and times of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionSettings {
    /// The number of messages that may be unacknowledged.
    pub frames_max: u64,
    /// The bytes that these messages may have together. A message that is larger alone is sent alone.
    pub bytes_max: usize,
    /// The time without progress after which messages are sent again. It doubles each time, and progress resets it.
    pub resend_first: Duration,
    /// The limit of that time.
    pub resend_max: Duration,
    /// The number of messages that one time-out sends again, the oldest ones first.
    pub resend_burst: usize,
    /// The time for which an acknowledgement waits for a packet that can carry it.
    pub acknowledge_after: Duration,
}

impl Default for SessionSettings {
    /// 1 024 messages, 4 MiB; 200 ms to 5 s; 32 messages; 10 ms.
    fn default() -> Self {
        SessionSettings {
            frames_max: 1024,
            bytes_max: 4 << 20,
            resend_first: Duration::from_millis(200),
            resend_max: Duration::from_secs(5),
            resend_burst: 32,
            acknowledge_after: Duration::from_millis(10),
        }
    }
}
