//! The thread of a joint: it moves messages, and tells of the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use selvedge_channels::{SpinBudget, Waiting};
use selvedge_core::{LaneId, ProcessId};

use super::joint::Joint;
use super::outgoing::OutgoingError;
use super::shares::OutgoingShare;
use super::word::Word;

impl Joint {
    /// Starts the thread of a joint. It ends when the graph has ended.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(self: &Arc<Self>, waiting: Waiting) -> std::io::Result<()> {
        let (joint, budget) = (Arc::clone(self), SpinBudget::new(self.control.waiting(waiting)));
        let thread = thread::Builder::new().name("selvedge-shuttle".to_owned());
        thread.spawn(move || joint.run(&budget)).map(drop)
    }

    fn run(&self, budget: &SpinBudget) {
        let mut until = None;
        while self.control.is_running() {
            let is_due = until.is_some_and(|until| Instant::now() >= until);
            // AcqRel: news that are noted after this set the flag again. SYNC joint-news.
            if self.has_news.swap(false, Ordering::AcqRel) || is_due {
                until = self.settle_news();
            }
            budget.wait(&self.bell, until, || self.turn());
        }
        self.near.own(|near| near.end());
        self.at_the_end();
    }

    /// Moves what can move; returns whether there is a reason to look again.
    fn turn(&self) -> bool {
        // SYNC joint-news: pairs with the store in `note_news`.
        if !self.control.is_running() || self.has_news.load(Ordering::Acquire) {
            return true;
        }
        // Relaxed: this thread fails the joint, or hears of the end by the control block.
        if self.has_failed.load(Ordering::Relaxed) {
            return false;
        }
        let mut moved = self.catch_up();
        for share in self.shares.posted() {
            send_share(self, &share);
            moved = true;
        }
        moved |= self.near.own(|near| near.send(self, usize::MAX)).moved;
        moved || self.near.was_rung()
    }

    /// Whether there is something to do beside the sending of short messages.
    pub(super) fn needs_thread(&self) -> bool {
        // SYNC joint-news: pairs with the store in `note_news`. Relaxed for the rest: whoever sets a flag rings afterwards, and the
        // announcement of sleep orders the look.
        !self.control.is_running()
            || self.has_news.load(Ordering::Acquire)
            || self.behind.is_set()
            || self.shares.has_posted()
    }

    /// Acts on what was noted. Returns the time at which a trouble counts.
    fn settle_news(&self) -> Option<Instant> {
        if let Some(act) = self.on_failure.get() {
            let told = self.told.lock().take();
            if let Some((lane, text)) = told {
                act(lane, text);
            }
        }
        let mut trouble = self.trouble.lock();
        let due = trouble.take_if(|(until, _)| Instant::now() >= *until);
        let until = trouble.as_ref().map(|(until, _)| *until);
        drop(trouble);
        if let Some((_, text)) = due {
            self.fail(LaneId::DRIVER, text);
        }
        until
    }

    /// Tells who has to know that the graph has ended on this host (`JOINT-4`).
    fn at_the_end(&self) {
        if self.process == ProcessId::DRIVER {
            return self.stop();
        }
        // SYNC joint-stopped: pairs with the store in `ended`.
        if self.is_steward && !self.has_stopped.load(Ordering::Acquire) {
            let failure = self.control.failure();
            let (lane, text) = failure.unwrap_or_else(|| (LaneId::DRIVER, "a lane failed".to_owned()));
            self.fail(lane, text);
        }
    }
}

/// Sends a host's share of a collective to the other leaders.
fn send_share(joint: &Joint, share: &OutgoingShare) {
    let (group, number) = (share.group as u32, share.number);
    for to in &share.to {
        let sent = joint.send(*to, &Word::Share { group, number }, share.bytes.clone().into());
        if let Err(why) = sent {
            joint.shuttle_is_in_trouble(*to, &OutgoingError::NotSent(why));
        }
    }
}
