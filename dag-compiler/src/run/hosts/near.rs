//! The near ends of the shuttles of one process.

use std::sync::atomic::Ordering;

use selvedge_core::{IdMap, ProcessId};

use super::joint::Joint;
use super::outgoing::{BYTES_MAX, Outgoing, OutgoingError, SentMessage};

/// The near ends of a process's shuttles.
pub(super) struct NearEnds {
    outgoing: Vec<Outgoing>,
    /// The bytes on their way to each process.
    on_their_way: IdMap<ProcessId, usize>,
}

/// The outcome of an attempt to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Whether a message was sent.
    pub(super) moved: bool,
    /// Whether a message was left because it is too long.
    pub(super) is_left: bool,
}

impl NearEnds {
    pub(super) fn new(outgoing: Vec<Outgoing>) -> Self {
        NearEnds {
            outgoing,
            on_their_way: IdMap::new(),
        }
    }

    /// The graph has ended, and its handle may live on.
    pub(super) fn end(&self) {
        self.outgoing.iter().for_each(Outgoing::end);
    }

    /// Sends what the shuttles may send, but for messages of more than `most` bytes.
    pub(super) fn send(&mut self, joint: &Joint, most: usize) -> Sent {
        let mut sent = Sent::default();
        // SYNC joint-begun: pairs with the store in `begins`. Relaxed: who fails the joint sends nothing that matters afterwards.
        if joint.has_begun.load(Ordering::Acquire) && !joint.has_failed.load(Ordering::Relaxed) {
            for outgoing in &mut self.outgoing {
                let on_their_way = self.on_their_way.or_default(outgoing.plan().to);
                send_all(joint, outgoing, on_their_way, most, &mut sent);
            }
        }
        sent
    }
}

/// Sends what a shuttle may send.
fn send_all(joint: &Joint, outgoing: &mut Outgoing, on_their_way: &mut usize, most: usize, sent: &mut Sent) {
    let to = outgoing.plan().to;
    match try_send_all(joint, outgoing, on_their_way, most, sent) {
        Ok(()) => {}
        Err(error @ OutgoingError::TakenTooMany { .. }) => joint.shuttle_failed(to, &error),
        // The writer's lane has ended, or the process is dead: the reason is on its way.
        Err(error) => joint.shuttle_is_in_trouble(to, &error),
    }
}

fn try_send_all(
    joint: &Joint,
    outgoing: &mut Outgoing,
    on_their_way: &mut usize,
    most: usize,
    sent: &mut Sent,
) -> Result<(), OutgoingError> {
    *on_their_way = on_their_way.saturating_sub(outgoing.settle()?);
    loop {
        let room = BYTES_MAX.saturating_sub(*on_their_way);
        match outgoing.send((room, most), |to, word, body| joint.send(to, word, body))? {
            SentMessage::None => return Ok(()),
            SentMessage::TooLong => {
                sent.is_left = true;
                return Ok(());
            }
            SentMessage::Counted(bytes) => *on_their_way += bytes,
        }
        sent.moved = true;
    }
}
