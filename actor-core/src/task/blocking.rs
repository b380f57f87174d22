//! A submitted call that waits: its cpus are free for others for the time.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;

use crate::current::{Current, NoBlocking, Place};
use crate::remote::calls::CallId;
use crate::remote::message::CallMessage;
use crate::remote::service::Remote;

/// The process that is told when a submitted call waits.
#[derive(Clone, Copy)]
pub(crate) enum Scheduled {
    /// The process that has sent it, under this number.
    By(Peer, CallId),
    /// The process itself.
    Here(u64),
}

/// The place of a submitted call.
struct SubmittedPlace {
    within: Arc<Current>,
    remote: Weak<Remote>,
    scheduled: Scheduled,
}

impl Place for SubmittedPlace {
    fn block(&self) -> Result<(), NoBlocking> {
        self.within.place.block()?;
        self.tell(true);
        Ok(())
    }

    fn resume(&self) {
        self.within.place.resume();
        self.tell(false);
    }
}

impl SubmittedPlace {
    fn tell(&self, is_blocked: bool) {
        let Some(remote) = self.remote.upgrade() else {
            return;
        };
        match self.scheduled {
            Scheduled::Here(call) => remote.tasks().blocked(call, is_blocked),
            // A process that is dead schedules nothing.
            Scheduled::By(peer, call) => {
                remote.say_of_call(peer, &CallMessage::Blocked { call, is_blocked });
            }
        }
    }
}

impl Remote {
    /// The surroundings of a submitted call.
    pub(crate) fn current_of(&self, is_async: bool, scheduled: Scheduled) -> Arc<Current> {
        let within = self.current(is_async);
        if is_async {
            return within;
        }
        let place = SubmittedPlace {
            within: Arc::clone(&within),
            remote: self.this(),
            scheduled,
        };
        Arc::new(Current {
            owner: Arc::clone(&within.owner),
            place: Arc::new(place),
        })
    }
}
