//! A process's contact with the head.

use std::time::Duration;

use super::settings::MemberSettings;

/// The contact of a process with the head, without which it ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contact {
    settings: MemberSettings,
    heard: Duration,
    said: Duration,
}

/// The next thing that a process does about its contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContactStep {
    /// Nothing before [`Contact::deadline`].
    Wait,
    /// Send a sign of life.
    Heartbeat,
    /// End the process: the head has been silent for this time.
    Orphaned(Duration),
}

impl Contact {
    /// A contact that begins with the welcome of the head.
    pub fn new(now: Duration, settings: MemberSettings) -> Self {
        Contact {
            settings,
            heard: now,
            said: now,
        }
    }

    /// A frame of the head has arrived.
    pub fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// A frame was sent to the head, which is a sign of life as well.
    pub fn said(&mut self, now: Duration) {
        self.said = now;
    }

    /// The next thing to do.
    pub fn step(&self, now: Duration) -> ContactStep {
        let silence = now.saturating_sub(self.heard);
        if silence >= self.settings.orphaned_after {
            ContactStep::Orphaned(silence)
        } else if now.saturating_sub(self.said) >= self.settings.heartbeat {
            ContactStep::Heartbeat
        } else {
            ContactStep::Wait
        }
    }

    /// The next moment at which [`step`](Self::step) has something to do.
    pub fn deadline(&self) -> Duration {
        let orphaned = self.heard.saturating_add(self.settings.orphaned_after);
        orphaned.min(self.said.saturating_add(self.settings.heartbeat))
    }
}
