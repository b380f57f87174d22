//! A submitted call that waits: its cpus are free for others for the time.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;

use super::outer::OuterCall;
use crate::current::{Current, NoBlocking, Place, current};
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

impl Scheduled {
    /// The number of the letter that has brought the call; 0 if none has.
    pub(crate) fn letter(self) -> u64 {
        match self {
            Scheduled::By(_, call) => call.0,
            Scheduled::Here(_) => 0,
        }
    }
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
    /// The pure call on this thread, if it was submitted to this runtime: what it submits has names by it.
    pub(crate) fn outer(&self) -> Option<Arc<OuterCall>> {
        let current = current()?;
        let outer = current.outer.as_ref()?;
        // A function may have made a runtime of its own.
        Arc::ptr_eq(&current.owner, self.owner()?).then(|| Arc::clone(outer))
    }

    /// The surroundings of a submitted call.
    pub(crate) fn current_of(
        &self,
        is_async: bool,
        scheduled: Scheduled,
        outer: Option<Arc<OuterCall>>,
    ) -> Arc<Current> {
        let within = self.current(is_async);
        if is_async && outer.is_none() {
            return within;
        }
        let owner = Arc::clone(&within.owner);
        let place: Arc<dyn Place> = match is_async {
            true => Arc::clone(&within.place),
            false => Arc::new(SubmittedPlace {
                within,
                remote: self.this(),
                scheduled,
            }),
        };
        Arc::new(Current { owner, place, outer })
    }
}
