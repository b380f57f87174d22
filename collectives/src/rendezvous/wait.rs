//! Waits for other ranks, and detection of waits that are in vain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::SegmentError;

use super::participant::Participant;
use super::words::GroupEnd;
use crate::error::CommError;

impl Participant {
    /// Watches the processes of ranks that were taken since the last call.
    #[inline]
    pub(crate) fn watch(&mut self) {
        let group = &self.group;
        if group.watches {
            self.watches.look_for_new(
                |rank| group.living(rank),
                |rank, process| group.on_death(rank, process),
            );
        }
    }

    /// Returns the error if a rank has left, or if its process has ended or is about to end.
    #[cold]
    pub(crate) fn find_gone(&self) -> Option<CommError> {
        if let Err(ended) = self.group.ended() {
            return Some(ended);
        }
        // If another owner watches the processes, that owner reports a death.
        if self.group.watches
            && let Some((rank, pid)) = self.find_dying()
        {
            self.group.end(GroupEnd::Died { rank, pid });
            // All ranks have the same error, also if another cause has ended the group meanwhile.
            return self.group.ended().err();
        }
        let has_left = |rank: &usize| matches!(self.group.words.has_left(*rank), Ok(true));
        let left = (0..self.group.ranks()).find(has_left);
        left.map(|rank| CommError::PeerLeft { rank })
    }

    /// Returns the first rank whose process has ended, or is about to end, with the rank still taken, and the number of
    /// that process. What its files connected breaks before the process has ended, and so before anyone reports its
    /// death.
    #[cold]
    pub(crate) fn find_dying(&self) -> Option<(usize, u32)> {
        let living = |rank| self.group.living(rank).map(|process| (rank, process));
        let mut living = (0..self.group.ranks()).filter_map(living);
        let (rank, process) = living.find(|(_, process)| process.is_ending())?;
        Some((rank, process.pid))
    }

    /// Returns an error if rank `other`, for which this rank waits, cannot act any more.
    pub(super) fn awaited(&self, other: usize) -> Result<(), CommError> {
        self.group.ended()?;
        if self.group.words.has_left(other)? {
            return Err(CommError::PeerLeft { rank: other });
        }
        Ok(())
    }

    /// Returns an error if rank `other`, which has not come yet, cannot come any more.
    #[cold]
    pub(crate) fn missing(
        &self,
        other: usize,
        has_come: impl FnOnce(&Self) -> Result<bool, CommError>,
    ) -> Result<(), CommError> {
        let left = self.group.words.has_left(other)?;
        // Checked again: the rank may have come, and then left.
        if has_come(self)? {
            return Ok(());
        }
        self.group.ended()?;
        if left {
            Err(CommError::PeerLeft { rank: other })
        } else {
            Ok(())
        }
    }

    /// Returns `None` in place of an error that shows only that a rank is dying. The end of that rank will be reported;
    /// until then, this rank waits for it.
    pub(crate) fn unless_dying<R>(&self, outcome: Result<R, CommError>) -> Result<Option<R>, CommError> {
        match outcome {
            Err(error) if is_of_the_dying(&error) => self.find_gone().map_or(Ok(None), Err),
            outcome => outcome.map(Some),
        }
    }

    /// Whether another rank may still have to map this rank's last contribution, or a message.
    fn is_needed(&self) -> bool {
        let words = &self.group.words;
        let may_map = |rank: usize| {
            let there = matches!(words.holder(rank), Ok(Some(holder)) if !holder.has_left);
            there && !self.group.is_here(rank)
        };
        let unread = |(to, number): (usize, u64)| {
            let gone = matches!(words.has_left(to), Ok(true));
            let unread = words
                .received(self.rank, to)
                .is_ok_and(|received| received < number);
            !gone && !self.group.is_here(to) && unread
        };
        let not_done = |rank: usize| !words.is_done(rank, self.number).unwrap_or(true);
        self.blocks.messages().any(unread)
            || (0..self.group.ranks()).any(|rank| may_map(rank) && not_done(rank))
    }

    /// Waits until no other rank needs this rank any more, for at most `timeout`. The rank leaves then, and its drop
    /// does not wait again.
    pub(crate) fn linger(&mut self, timeout: Option<Duration>) {
        self.has_lingered = true;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let over = |this: &Self| this.group.ended().is_err() || !this.is_needed();
        if !over(self) {
            let (bell, waiting) = (self.bell.clone(), self.budget.waiting());
            bell.wait(&waiting, deadline, || {
                self.watch();
                over(self)
            });
        }
    }

    /// Waits until `attempt` has an answer, and watches the other ranks meanwhile. After the time limit, returns the
    /// time waited. `driver` is the participant, or its owner.
    pub(crate) fn until<D: AsMut<Participant>, R>(
        driver: &mut D,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut D) -> Result<Option<R>, CommError>,
    ) -> Result<Result<R, Duration>, CommError> {
        if let Some(found) = attempt(driver)? {
            return Ok(Ok(found));
        }
        let started = Instant::now();
        let this = driver.as_mut();
        let timeout = timeout.or(this.group.timeout);
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let waiting = this.budget.waiting().for_payload(this.blocks.len_bytes());
        let mut outcome = Ok(None);
        if !waiting.spin(deadline, || {
            outcome = attempt(driver);
            let waits = matches!(outcome, Ok(None));
            if waits {
                driver.as_mut().watch();
            }
            !waits
        }) {
            let this = driver.as_mut();
            let (budget, bell) = (Arc::clone(&this.budget), this.bell.clone());
            budget.park(&bell, deadline, || {
                // The watch comes before the attempt, which then sees the effects of a death.
                driver.as_mut().watch();
                outcome = attempt(driver);
                !matches!(outcome, Ok(None))
            });
        }
        Ok(outcome?.ok_or_else(|| started.elapsed()))
    }

    /// Returns a description of the ranks that have not come.
    pub(crate) fn describe_missing(&self, has_come: impl Fn(usize) -> Result<bool, CommError>) -> String {
        let missing = (0..self.group.ranks()).filter(|rank| !has_come(*rank).unwrap_or(true));
        let name = |rank: usize| match self.group.words.holder(rank) {
            Ok(Some(holder)) => format!("rank {rank} (process {})", holder.process.pid),
            _ => format!("rank {rank}, which nobody has taken"),
        };
        missing.map(name).collect::<Vec<_>>().join(", ")
    }
}

impl AsMut<Participant> for Participant {
    fn as_mut(&mut self) -> &mut Participant {
        self
    }
}

/// Whether the error means that a rank's memory is gone: a process that ends closes its files before others can see
/// that it ends.
fn is_of_the_dying(error: &CommError) -> bool {
    match error {
        CommError::Segment(SegmentError::System { error, .. }) => {
            error.kind() == std::io::ErrorKind::NotFound
        }
        CommError::Segment(SegmentError::Foreign { .. }) => true,
        _ => false,
    }
}
