//! The receiving half of a session: duplicates, gaps and acknowledgements.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::mutant::Mutant;
use super::{SessionError, SessionSettings};
use crate::id_map::IdMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Incoming<M> {
    settings: SessionSettings,
    /// The sequence number up to which every message was delivered.
    delivered: u64,
    /// Messages behind a gap, each with its bytes.
    early: IdMap<u64, (M, usize)>,
    early_bytes: usize,
    /// The moment at which an acknowledgement has to be sent, if one is owed.
    due: Option<Duration>,
}

impl<M> Incoming<M> {
    pub(super) fn new(settings: SessionSettings) -> Self {
        Incoming {
            settings,
            delivered: 0,
            early: IdMap::new(),
            early_bytes: 0,
            due: None,
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub(super) fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// The acknowledgement for the next packet.
    pub(super) fn acknowledge(&mut self, mutant: Mutant) -> u64 {
        self.due = None;
        let last = self
            .early
            .last_key_value()
            .filter(|_| mutant == Mutant::AcknowledgesEarly);
        last.map_or(self.delivered, |(last, _)| *last)
    }

    /// Refuses a sequence number that a peer which keeps to the window cannot have sent.
    pub(super) fn check(&self, sequence: u64) -> Result<(), SessionError> {
        let limit = self.delivered.saturating_add(self.settings.frames_max);
        match sequence {
            0 => Err(SessionError::NoSequence),
            _ if sequence > limit => Err(SessionError::BeyondWindow { sequence, limit }),
            _ => Ok(()),
        }
    }

    /// Takes a message. Returns the messages that can now be delivered, in order; `spent` gets one that nobody needs.
    pub(super) fn accept(
        &mut self,
        now: Duration,
        sequence: u64,
        message: M,
        bytes: usize,
        mutant: Mutant,
        spent: impl FnMut(M),
    ) -> SmallVec<[M; 1]> {
        let is_next = sequence == self.delivered.saturating_add(1);
        let wait = if is_next {
            self.settings.acknowledge_after
        } else {
            Duration::ZERO
        };
        let due = now.saturating_add(wait);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        if sequence <= self.delivered {
            // A duplicate: the acknowledgement was lost.
            Some(message).into_iter().for_each(spent);
            return SmallVec::new();
        }
        if mutant == Mutant::DeliversEarly {
            self.delivered = sequence;
            return smallvec![message];
        }
        if !is_next {
            self.keep(sequence, message, bytes).into_iter().for_each(spent);
            return SmallVec::new();
        }
        self.delivered = sequence;
        let mut messages = smallvec![message];
        while !self.early.is_empty()
            && let Some((message, bytes)) = self.early.remove(&self.delivered.saturating_add(1))
        {
            self.delivered += 1;
            self.early_bytes -= bytes;
            messages.push(message);
        }
        messages
    }

    /// Keeps a message behind a gap. One for which there is no room comes back, and will be sent again.
    fn keep(&mut self, sequence: u64, message: M, bytes: usize) -> Option<M> {
        let total = self.early_bytes.saturating_add(bytes);
        if total > self.settings.bytes_max || self.early.contains_key(&sequence) {
            return Some(message);
        }
        self.early.insert(sequence, (message, bytes));
        self.early_bytes = total;
        None
    }

    /// The messages behind a gap, which are never delivered.
    pub(super) fn into_early(self) -> impl Iterator<Item = M> {
        self.early.into_values().map(|(message, _)| message)
    }
}
