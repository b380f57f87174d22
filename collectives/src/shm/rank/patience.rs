//! Waits for other ranks, and detection of waits that are in vain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::SegmentError;

use super::{Rank, RankState};
use crate::error::CommError;
use crate::rendezvous::End;

impl Rank {
    /// Returns the error if a rank has left, or if its process has ended.
    #[cold]
    pub(crate) fn find_gone(&self) -> Option<CommError> {
        if let Err(ended) = self.ended() {
            return Some(ended);
        }
        (0..self.shared.ranks()).find_map(|rank| match self.shared.words.holder(rank) {
            Ok(Some((_, true))) => Some(CommError::PeerLeft { rank }),
            // If another owner watches the processes, that owner reports a death.
            Ok(Some((process, false))) if self.shared.watches && !process.is_current() => {
                let pid = process.pid;
                self.shared.end(End::Died { rank, pid });
                Some(CommError::PeerLost { rank, pid })
            }
            _ => None,
        })
    }

    /// Whether another rank may still have to map this rank's last contribution, or a message.
    pub(super) fn is_needed(&self) -> bool {
        let words = &self.shared.words;
        let unread = |(to, number): (usize, u64)| {
            let gone = matches!(words.holder(to), Ok(Some((_, true))));
            !gone && !self.shared.is_here(to) && words.taken(self.rank, to).is_ok_and(|taken| taken < number)
        };
        if self.blocks.messages().any(unread) {
            return true;
        }
        let needs = |rank: usize| {
            let gone = matches!(words.holder(rank), Ok(None | Some((_, true))));
            let done = words.is_done(rank, self.number).unwrap_or(true);
            !gone && !done && !self.shared.is_here(rank)
        };
        (0..self.shared.ranks()).any(needs)
    }

    /// Waits until no other rank needs this rank any more.
    pub(super) fn linger(&mut self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(bell) = self.shared.bells.get(self.rank).cloned() else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let over = |rank: &Self| rank.ended().is_err() || !rank.is_needed();
        if !over(self) {
            bell.wait(&self.budget.waiting(), deadline, || {
                self.watches.look(&shared);
                over(self)
            });
        }
    }

    /// Waits until `attempt` has an answer, and watches the other ranks meanwhile. After the time limit, returns the
    /// time waited.
    pub(crate) fn until<R>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Self) -> Result<Option<R>, CommError>,
    ) -> Result<Result<R, Duration>, CommError> {
        if let Some(found) = attempt(self)? {
            return Ok(Ok(found));
        }
        let started = Instant::now();
        let deadline = timeout
            .or(self.shared.timeout)
            .and_then(|timeout| started.checked_add(timeout));
        let waiting = self.budget.waiting().for_payload(self.blocks.len_bytes());
        let shared = Arc::clone(&self.shared);
        let Some(bell) = shared.bells.get(self.rank) else {
            return Err(CommError::Idle);
        };
        let mut outcome = Ok(None);
        if !waiting.spin(deadline, || {
            outcome = attempt(self);
            let waits = matches!(outcome, Ok(None));
            if waits {
                self.watches.look(&shared);
            }
            !waits
        }) {
            Arc::clone(&self.budget).park(bell, deadline, || {
                // The watch comes before the attempt, which then sees the effects of a death.
                self.watches.look(&shared);
                outcome = attempt(self);
                !matches!(outcome, Ok(None))
            });
        }
        Ok(outcome?.ok_or_else(|| started.elapsed()))
    }

    /// Returns an error if rank `other`, for which this rank waits, cannot act any more.
    pub(super) fn awaited(&self, other: usize) -> Result<(), CommError> {
        self.ended()?;
        match self.shared.words.holder(other)? {
            Some((_, true)) => Err(CommError::PeerLeft { rank: other }),
            _ => Ok(()),
        }
    }

    /// Whether rank `other` has done the step for which this rank waits now.
    pub(super) fn has_come(&self, other: usize) -> Result<bool, CommError> {
        let words = &self.shared.words;
        let come = match self.state {
            RankState::Arriving { .. } => words.has_arrived(other, self.number),
            RankState::Joining { .. } if other == self.rank => Ok(true),
            RankState::Joining { .. } => return self.may_join(),
            _ => words.is_done(other, self.number),
        };
        Ok(come?)
    }

    /// Returns a description of the missing ranks.
    pub(crate) fn describe_missing(&self) -> String {
        let missing = |rank: &usize| !self.has_come(*rank).unwrap_or(true);
        let name = |rank: usize| match self.shared.words.holder(rank) {
            Ok(Some((process, _))) => format!("rank {rank} (process {})", process.pid),
            _ => format!("rank {rank}, which nobody has taken"),
        };
        let missing: Vec<String> = (0..self.shared.ranks()).filter(missing).map(name).collect();
        missing.join(", ")
    }
}

/// Whether the error means that a rank's memory is gone: a process that ends closes its files before others can see
/// that it ends.
pub(super) fn is_of_the_dying(error: &CommError) -> bool {
    match error {
        CommError::Segment(SegmentError::System { source, .. }) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        CommError::Segment(SegmentError::Foreign { .. }) => true,
        _ => false,
    }
}
