//! The memory of other processes' stores, as this process has mapped it.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::platform::extent_file::ExtentFile;
use selvedge_channels::{SegmentError, SegmentId};
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::store::StoreId;

use super::message::StoreMessage;
use crate::hub::post::Post;

/// The memory of others, by their agents. Views keep what they lie in mapped, also when its agent is dead.
pub(super) struct Mappings {
    post: Arc<dyn Post>,
    mapped: Mutex<IdMap<Peer, Arc<ExtentFile>>>,
}

impl Mappings {
    pub(super) fn new(post: Arc<dyn Post>) -> Self {
        let mapped = Mutex::default();
        Mappings { post, mapped }
    }

    /// The memory of an agent.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub(super) fn of(&self, agent: Peer, id: &SegmentId) -> Result<Arc<ExtentFile>, SegmentError> {
        let mut mapped = self.mapped.lock();
        if let Some(memory) = mapped.get(&agent).filter(|memory| memory.id() == id) {
            return Ok(Arc::clone(memory));
        }
        let memory = ExtentFile::open(id)?;
        mapped.insert(agent, Arc::clone(&memory));
        Ok(memory)
    }

    /// The last view by way of a grant is gone.
    pub(super) fn close(&self, agent: Peer, object: StoreId, grant: u64) {
        let letter = StoreMessage::Close { object, grant }.letter();
        self.post.told(agent, self.post.send(agent, letter));
    }

    /// An agent is dead.
    pub(super) fn forget(&self, agent: Peer) {
        let memory = self.mapped.lock().remove(&agent);
        drop(memory);
    }

    /// The process ends.
    pub(super) fn clear(&self) {
        let mapped = std::mem::take(&mut *self.mapped.lock());
        drop(mapped);
    }
}
