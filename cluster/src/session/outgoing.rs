//! The sending half of a session: the window of unacknowledged messages.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::mutant::Mutant;
use super::{Outcome, SessionError, SessionSettings, WindowFull};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Outgoing<M> {
    settings: SessionSettings,
    /// The last acknowledged sequence number.
    acknowledged: u64,
    /// The highest sequence number that was handed to any link.
    handed_over: u64,
    /// The messages after `acknowledged`, each with its bytes.
    window: VecDeque<(M, usize)>,
    bytes: usize,
    /// The time without progress after which messages are sent again.
    pause: Duration,
    /// The end of that time, while a handed-over message is unacknowledged.
    due: Option<Duration>,
}

impl<M: Clone> Outgoing<M> {
    pub(super) fn new(settings: SessionSettings) -> Self {
        Outgoing {
            settings,
            acknowledged: 0,
            handed_over: 0,
            window: VecDeque::new(),
            bytes: 0,
            pause: settings.resend_first,
            due: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.window.len()
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Puts a message into the window and returns its sequence number.
    pub(super) fn push(&mut self, message: M, bytes: usize) -> Result<u64, WindowFull<M>> {
        let frames = self.window.len();
        let total = self.bytes.saturating_add(bytes);
        if frames > 0 && (frames as u64 >= self.settings.frames_max || total > self.settings.bytes_max) {
            return Err(WindowFull {
                message,
                frames,
                bytes: self.bytes,
            });
        }
        self.window.push_back((message, bytes));
        self.bytes = total;
        Ok(self.acknowledged + self.window.len() as u64)
    }

    /// The sequence numbers in the window.
    pub(super) fn unacknowledged(&self) -> RangeInclusive<u64> {
        self.acknowledged + 1..=self.acknowledged + self.window.len() as u64
    }

    /// The message of a sequence number, on its way to a link.
    pub(super) fn hand_over(&mut self, now: Duration, sequence: u64) -> Option<M> {
        let index = usize::try_from(sequence.checked_sub(self.acknowledged + 1)?).ok()?;
        let (message, _) = self.window.get(index)?;
        self.handed_over = self.handed_over.max(sequence);
        self.due.get_or_insert(now.saturating_add(self.pause));
        Some(message.clone())
    }

    /// Removes what the peer has delivered, and gives it to `spent`. Returns the sequence numbers.
    pub(super) fn acknowledge(
        &mut self,
        now: Duration,
        acknowledged: u64,
        mut spent: impl FnMut(M),
    ) -> Result<RangeInclusive<u64>, SessionError> {
        if acknowledged > self.handed_over {
            return Err(SessionError::NeverSent {
                acknowledged,
                sent: self.handed_over,
            });
        }
        let first = self.acknowledged + 1;
        while self.acknowledged < acknowledged {
            if let Some((message, bytes)) = self.window.pop_front() {
                self.bytes = self.bytes.saturating_sub(bytes);
                spent(message);
            }
            self.acknowledged += 1;
        }
        if first <= acknowledged {
            self.pause = self.settings.resend_first;
            let is_idle = self.handed_over == self.acknowledged;
            self.due = self
                .due
                .filter(|_| !is_idle)
                .map(|_| now.saturating_add(self.pause));
        }
        Ok(first..=acknowledged)
    }

    /// Doubles the time until messages are sent again; the next hand-over starts it.
    pub(super) fn back_off(&mut self) {
        self.pause = self.pause.saturating_mul(2).min(self.settings.resend_max);
        self.due = None;
    }

    pub(super) fn connected(&mut self) {
        self.pause = self.settings.resend_first;
        self.due = None;
    }

    pub(super) fn disconnected(&mut self) {
        self.due = None;
    }

    pub(super) fn end(self, mutant: Mutant, spent: impl FnMut(M)) -> Vec<(u64, Outcome)> {
        let outcome = |sequence| match sequence <= self.handed_over && mutant != Mutant::ForgetsHandOver {
            true => Outcome::Unknown,
            false => Outcome::NotSent,
        };
        let outcomes = self.unacknowledged().map(|it| (it, outcome(it))).collect();
        self.window
            .into_iter()
            .map(|(message, _)| message)
            .for_each(spent);
        outcomes
    }
}
