//! Times and limits of references.

use std::time::Duration;

/// Times and limits of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RefSettings {
    /// The number of messages in a bundle; when as many wait, they go at once.
    pub batch_max: usize,
    /// The time for which messages wait for others to the same process.
    pub batch_after: Duration,
    /// The time between two bundles to the same process, if a call waits for a message of the second one.
    pub prompt_after: Duration,
    /// The time after which an unanswered question is repeated. It doubles each time.
    pub retry_first: Duration,
    /// The limit of that time.
    pub retry_max: Duration,
    /// The time within which an owner has to confirm that it keeps a result; [`Duration::MAX`] for no limit.
    pub create_timeout: Duration,
    /// The number of entries that one other process may cause here: registrations, references, questions, waiting calls.
    pub entries_max: usize,
}

impl Default for RefSettings {
    /// 64 messages or 10 ms, and 1 ms if a call waits; 200 ms to 5 s; 60 s; 2^20 entries.
    fn default() -> Self {
        RefSettings {
            batch_max: 64,
            batch_after: Duration::from_millis(10),
            prompt_after: Duration::from_millis(1),
            retry_first: Duration::from_millis(200),
            retry_max: Duration::from_secs(5),
            create_timeout: Duration::from_secs(60),
            entries_max: 1 << 20,
        }
    }
}
