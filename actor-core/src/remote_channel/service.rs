//! The service of channels of one process.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_channels::dispose;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::Request;
use selvedge_objects::refs::RefId;

use super::cell::{ChannelCell, LivingChannels};
use super::inbox::ChannelInbox;
use super::message::{ChannelMessage, ChannelRefusal};
use super::requests::{ChannelRequests, Settled};
use super::value::{SharedValue, ValueForm, deferring};
use crate::body::Body;
use crate::hub::post::Post;
use crate::promise::Promise;
use crate::reference::effect::EffectThread;
use crate::reference::handle::Handle;
use crate::reference::references::{Helpers, References};
use crate::reference::unsaid::Unsaid;

/// The service of channels of one process: the requests of this process, and the channels that live in it.
pub(crate) struct RemoteChannels {
    pub(super) post: Arc<dyn Post>,
    pub(super) references: Arc<References>,
    pub(super) helpers: Arc<dyn Helpers>,
    pub(super) living: Arc<LivingChannels>,
    pub(super) requests: Mutex<ChannelRequests>,
    pub(super) inbox: Mutex<ChannelInbox<Incoming>>,
    pub(super) this: Weak<RemoteChannels>,
}

/// A request of another process, or the reason that it is refused.
pub(super) type Incoming = Result<Request<SharedValue>, (u64, ChannelRefusal)>;

impl RemoteChannels {
    /// Creates the service, which the handles of `references` find.
    pub(crate) fn new(
        post: Arc<dyn Post>,
        references: &Arc<References>,
        helpers: Arc<dyn Helpers>,
    ) -> Arc<Self> {
        let service = Arc::new_cyclic(|this| RemoteChannels {
            post,
            references: Arc::clone(references),
            helpers,
            living: Arc::default(),
            requests: Mutex::default(),
            inbox: Mutex::default(),
            this: Weak::clone(this),
        });
        let above = Arc::downgrade(&service);
        references.set_above(above);
        service
    }

    /// The service that a handle belongs to, unless its process ends.
    pub(super) fn of(handle: &Handle) -> Option<Arc<RemoteChannels>> {
        handle.above()?.downcast().ok()
    }

    pub(super) fn me(&self) -> Peer {
        self.post.me()
    }

    /// Makes a channel in this process.
    pub(crate) fn make(&self, capacity: usize) -> Arc<Handle> {
        let handle = self.references.create();
        self.fill(handle.id(), capacity);
        handle
    }

    /// Puts an empty channel into the cell of its object. If nobody holds a reference any more, nothing is left of it.
    pub(super) fn fill(&self, id: RefId, capacity: usize) {
        let content = ChannelCell::content(id, capacity, &self.living);
        let _ = self.references.fill(id, Ok(content));
    }

    /// Has another process make a channel.
    ///
    /// # Errors
    /// [`Unsaid`]; the process makes none then.
    pub(crate) fn make_at(&self, peer: Peer, capacity: usize) -> Result<Arc<Handle>, Unsaid> {
        let (handle, parcel) = self.references.keep(peer).map_err(Unsaid::Reference)?;
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX);
        let letter = |_| ChannelMessage::Make { parcel, capacity }.letter(parcel.id(), Body::EMPTY);
        let sent = self.references.send(peer, Some(parcel), &[], letter);
        sent.map(|_| handle)
    }

    /// Does something on the thread that reads links, where no value may be dropped.
    pub(super) fn on_link<R>(&self, work: impl FnOnce() -> R) -> R {
        let (result, spent) = deferring(work);
        self.dispose(spent, EffectThread::Link);
        result
    }

    /// Drops values, on a thread that may run user code.
    pub(super) fn dispose(&self, spent: Vec<ValueForm>, place: EffectThread) {
        if spent.is_empty() {
            return;
        }
        match place {
            EffectThread::Caller => dispose(spent),
            EffectThread::Link => self.helpers.run(Box::new(|| dispose(spent))),
        }
    }

    /// Tells the end of a request to who waits for it.
    pub(super) fn settle(&self, asker: Promise<Settled>, settled: Settled, place: EffectThread) {
        match place {
            EffectThread::Caller => asker.keep(settled),
            EffectThread::Link => self.references.keep_promise(asker, settled),
        }
    }

    /// Ends all waits: the process ends.
    pub(crate) fn stop(&self) {
        let (waiting, spent) = deferring(|| self.requests.lock().stop());
        drop(waiting);
        dispose(spent);
    }

    /// The number of channels here, of open requests of this process, and of requests of others that wait to be served.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (usize, usize, usize) {
        let living = self.living.lock().len();
        (living, self.requests.lock().open(), self.inbox.lock().len())
    }
}
