//! The thread of a joint: it moves messages, and tells of the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use selvedge_channels::{SpinBudget, Waiting};
use selvedge_core::{IdMap, LaneId, ProcessId};

use super::joint::Joint;
use super::outgoing::{BYTES_MAX, Outgoing, OutgoingError};
use super::shares::OutgoingShare;
use super::word::Word;

/// The state of a joint's thread.
struct Turning {
    joint: Arc<Joint>,
    outgoing: Vec<Outgoing>,
    /// The bytes on their way to each process.
    on_their_way: IdMap<ProcessId, usize>,
}

impl Joint {
    /// Starts the thread of a joint. It ends when the graph has ended.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(self: &Arc<Self>, outgoing: Vec<Outgoing>, waiting: Waiting) -> std::io::Result<()> {
        let turning = Turning {
            joint: Arc::clone(self),
            outgoing,
            on_their_way: IdMap::new(),
        };
        let thread = thread::Builder::new().name("selvedge-shuttle".to_owned());
        thread.spawn(move || turning.run(waiting)).map(drop)
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

impl Turning {
    fn run(mut self, waiting: Waiting) {
        let (joint, budget) = (Arc::clone(&self.joint), SpinBudget::new(waiting));
        let mut until = None;
        while joint.control.is_running() {
            let is_due = until.is_some_and(|until| Instant::now() >= until);
            // AcqRel: news that are noted after this set the flag again. SYNC joint-news.
            if joint.has_news.swap(false, Ordering::AcqRel) || is_due {
                until = joint.settle_news();
            }
            budget.wait(&joint.bell, until, || self.turn(&joint));
        }
        joint.at_the_end();
    }

    /// Moves what can move; returns whether there is a reason to look again.
    fn turn(&mut self, joint: &Joint) -> bool {
        // SYNC joint-news: pairs with the store in `note_news`.
        if !joint.control.is_running() || joint.has_news.load(Ordering::Acquire) {
            return true;
        }
        // Relaxed: this thread fails the joint, or hears of the end by the control block.
        if joint.has_failed.load(Ordering::Relaxed) {
            return false;
        }
        let mut moved = joint.catch_up();
        for share in joint.shares.posted() {
            send_share(joint, &share);
            moved = true;
        }
        // SYNC joint-begun: pairs with the store in `begins`.
        if joint.has_begun.load(Ordering::Acquire) {
            for outgoing in &mut self.outgoing {
                let on_their_way = self.on_their_way.or_default(outgoing.plan().to);
                moved |= send_all(joint, outgoing, on_their_way);
            }
        }
        moved
    }
}

/// Sends a host's share of a collective to the other leaders.
fn send_share(joint: &Joint, share: &OutgoingShare) {
    let (group, number) = (share.group as u32, share.number);
    for to in &share.to {
        let sent = joint.send(*to, &Word::Share { group, number }, share.bytes.clone());
        if let Err(why) = sent {
            joint.shuttle_is_in_trouble(*to, &OutgoingError::NotSent(why));
        }
    }
}

/// Sends what a shuttle may send; returns whether it has sent anything.
fn send_all(joint: &Joint, outgoing: &mut Outgoing, on_their_way: &mut usize) -> bool {
    let to = outgoing.plan().to;
    match try_send_all(joint, outgoing, on_their_way) {
        Ok(moved) => moved,
        Err(error @ OutgoingError::TakenTooMany { .. }) => {
            joint.shuttle_failed(to, &error);
            false
        }
        // The writer's lane has ended, or the process is dead: the reason is on its way.
        Err(error) => {
            joint.shuttle_is_in_trouble(to, &error);
            false
        }
    }
}

fn try_send_all(
    joint: &Joint,
    outgoing: &mut Outgoing,
    on_their_way: &mut usize,
) -> Result<bool, OutgoingError> {
    *on_their_way = on_their_way.saturating_sub(outgoing.settle()?);
    let mut moved = false;
    loop {
        let room = BYTES_MAX.saturating_sub(*on_their_way);
        let sent = outgoing.send(room, |to, word, body| joint.send(to, word, body))?;
        let Some(bytes) = sent else { return Ok(moved) };
        *on_their_way += bytes;
        moved = true;
    }
}
