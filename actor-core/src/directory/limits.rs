//! The time limits of a runtime.

use std::time::Duration;

/// The time limits of a runtime.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimits {
    /// The time limit for a new process to reach its program, and then to say hello.
    pub(crate) hello: Duration,
    /// The time limit for an actor's constructor.
    pub(crate) build: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(5),
            build: Duration::from_secs(60),
        }
    }
}
