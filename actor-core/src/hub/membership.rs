//! The news of who has joined, from the driver to its workers and jobs.
//!
//! The news goes over the hub's own link once that is made, so a member knows of a process before any letter that the driver sends
//! it from then on. A member without that link has got no letter of the driver, and will hear of the link behind the news.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use crossbeam_channel::Sender;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;

use super::Hub;
use super::notice::Notice;
use super::post::{Letter, Post, Receiver};

/// The service of membership.
const MEMBERS: Service = Service(23);

/// The letter with a notice.
pub(super) fn letter(notice: &Notice) -> Letter {
    Letter::new(MEMBERS, Class::Ordered, notice, Bytes::new())
}

/// The service of membership in a worker or a job.
pub(crate) struct Membership {
    hub: Weak<Hub>,
    /// Told once this process hears its own name, which the driver sends behind those of all others.
    knows_all: Option<Sender<()>>,
}

impl Membership {
    /// Registers the service with a hub, in the place of that which the hub has.
    pub(crate) fn register(hub: &Arc<Hub>, knows_all: Option<Sender<()>>) {
        let membership = Membership {
            hub: Arc::downgrade(hub),
            knows_all,
        };
        hub.register(MEMBERS, Arc::new(membership));
    }
}

impl Receiver for Membership {
    fn received(&self, from: Peer, letter: Letter) {
        let Some(hub) = self.hub.upgrade() else { return };
        let (peer, notice) = match postcard::from_bytes(&letter.head) {
            Ok(notice @ (Notice::Joined(peer, _) | Notice::Job(peer, _) | Notice::Leaves(peer)))
                if from.process == ProcessId::HEAD =>
            {
                (peer, notice)
            }
            _ => return hub.cut(from, "its news of members is none".to_owned()),
        };
        hub.notice(notice, None);
        if peer == hub.me()
            && let Some(knows_all) = &self.knows_all
        {
            // A job that does not wait any more has left.
            let _ = knows_all.try_send(());
        }
    }

    fn died(&self, _: Peer, _: &[(u64, Outcome)]) {}
}
