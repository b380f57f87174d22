//! The queue of a channel, in the cell of its object: the last reference frees both.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_channels::Traits;
use selvedge_cluster::id_map::IdMap;
use selvedge_objects::channel::{ChannelHome, ChannelSettings, Reply};
use selvedge_objects::refs::RefId;

use super::value::{SharedValue, ValueForm, deferring};
use crate::reference::content::ObjectValue;

/// The channels of this process that are alive, by their names.
pub(super) type LivingChannels = Mutex<IdMap<RefId, Weak<ChannelCell>>>;

/// The answers of one step.
pub(super) type Replies = Vec<Reply<SharedValue>>;

/// A step of a queue: the answers, and the values that it has dropped, still to be dropped.
#[derive(Default)]
pub(super) struct Stepped {
    pub(super) replies: Replies,
    pub(super) spent: Vec<ValueForm>,
}

/// The queue of one channel.
pub(super) struct ChannelCell {
    id: RefId,
    home: Mutex<ChannelHome<SharedValue>>,
    living: Weak<LivingChannels>,
}

impl ChannelCell {
    /// An empty channel, as the content of its object.
    pub(super) fn content(id: RefId, capacity: usize, living: &Arc<LivingChannels>) -> ObjectValue {
        let cell = ChannelCell {
            id,
            home: Mutex::new(ChannelHome::new(ChannelSettings::with_capacity(capacity))),
            living: Arc::downgrade(living),
        };
        let content = ObjectValue::new(cell, const { &Traits::NONE });
        if let Some(cell) = content.get() {
            living.lock().insert(id, Arc::downgrade(&cell));
        }
        content
    }

    /// The name of the channel.
    pub(super) fn id(&self) -> RefId {
        self.id
    }

    /// Takes one step of the queue.
    pub(super) fn step(&self, step: impl FnOnce(&mut ChannelHome<SharedValue>) -> Replies) -> Stepped {
        let (replies, spent) = deferring(|| step(&mut self.home.lock()));
        Stepped { replies, spent }
    }

    /// The values in the queue, the oldest first.
    pub(super) fn snapshot(&self) -> Vec<SharedValue> {
        self.home.lock().snapshot()
    }
}

impl Drop for ChannelCell {
    fn drop(&mut self) {
        if let Some(living) = self.living.upgrade() {
            living.lock().remove(&self.id);
        }
    }
}
