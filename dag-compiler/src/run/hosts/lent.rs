//! A long message that is sent from its slot: the body of its letter is the slot, which is free again when the hub has dropped the
//! letter, because the far end has acknowledged it or is dead.
//!
//! The reader of the channel is in the body meanwhile, so nobody releases the slot under it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::{Doorbell, SharedReader};

use super::berth::JointBerth;

/// The one that is told that a reader is back.
#[derive(Clone)]
pub(crate) enum Told {
    /// The joint's thread, which is called: the link is locked when a letter is dropped, so nothing may be sent there.
    Berth(Arc<JointBerth>),
    /// The joint's thread, by its doorbell.
    Bell(Doorbell),
}

/// The place to which the reader comes back.
#[derive(Clone)]
pub(super) struct Home {
    reader: Arc<Mutex<Option<SharedReader>>>,
    told: Told,
}

/// A reader with its message in hand.
struct LentSlot {
    reader: Option<SharedReader>,
    home: Home,
}

impl Home {
    pub(super) fn new(told: Told) -> Self {
        Home {
            reader: Arc::default(),
            told,
        }
    }

    /// The message that the reader has found, as a body.
    pub(super) fn lend(&self, reader: SharedReader) -> Bytes {
        Bytes::from_owner(LentSlot {
            reader: Some(reader),
            home: self.clone(),
        })
    }

    /// Takes the reader, if it is back.
    pub(super) fn take(&self) -> Option<SharedReader> {
        self.reader.lock().take()
    }
}

impl AsRef<[u8]> for LentSlot {
    fn as_ref(&self) -> &[u8] {
        let message = self.reader.as_ref().map(SharedReader::seen);
        message
            .and_then(Result::ok)
            .and_then(Result::ok)
            .unwrap_or_default()
    }
}

impl Drop for LentSlot {
    fn drop(&mut self) {
        *self.home.reader.lock() = self.reader.take();
        match &self.home.told {
            Told::Berth(berth) => berth.call(),
            Told::Bell(bell) => bell.ring(),
        }
    }
}
