//! The agreement of all managers of a runtime, and whose turn it is to add workers.

use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use selvedge_cluster::handshake::{Cookie, NoRandomness};

use super::terms::Terms;
use crate::deadline::deadline_after;
use crate::topology::Topology;

/// The agreement of a runtime with its managers.
#[derive(Default)]
pub(crate) struct Agreement {
    state: Mutex<AgreementState>,
    /// Notified when a turn ends.
    turn_ended: Condvar,
}

#[derive(Default)]
struct AgreementState {
    /// The thread that adds workers.
    adding: Option<ThreadId>,
    /// Fixed by the first manager whose workers have joined.
    terms: Option<Terms>,
    cookie: Option<Cookie>,
}

impl Agreement {
    /// Begins to add workers on these terms, once no other call does (JCLUST-07).
    ///
    /// # Errors
    /// [`NoTurn`].
    pub(super) fn begin(&self, terms: Terms, limit: Duration) -> Result<AddTurn<'_>, NoTurn> {
        let (me, deadline) = (thread::current().id(), deadline_after(limit));
        let mut state = self.state.lock();
        while let Some(other) = state.adding {
            if other == me {
                return Err(NoTurn::WithinAdd);
            }
            if self.turn_ended.wait_until(&mut state, deadline).timed_out() && state.adding.is_some() {
                return Err(NoTurn::Busy { waited: limit });
            }
        }
        if let Some(fixed) = &state.terms {
            fixed.check(&terms)?;
        }
        state.adding = Some(me);
        let agreement = self;
        Ok(AddTurn { agreement, terms })
    }

    /// Sets the cookie. Returns `false` if there is one.
    pub(super) fn set_cookie(&self, cookie: Cookie) -> bool {
        let mut state = self.state.lock();
        let is_new = state.cookie.is_none();
        state.cookie.get_or_insert(cookie);
        is_new
    }

    /// The cookie, which is random and made now unless it was set.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn cookie(&self) -> Result<Cookie, NoRandomness> {
        let mut state = self.state.lock();
        if let Some(cookie) = &state.cookie {
            return Ok(cookie.clone());
        }
        Ok(state.cookie.insert(Cookie::random()?).clone())
    }
}

/// The reason that a call may not add workers.
pub(super) enum NoTurn {
    /// The thread of the call adds workers already.
    WithinAdd,
    /// Another call has not ended in time.
    Busy { waited: Duration },
    /// The workers have another topology.
    Topology { fixed: Topology, wanted: Topology },
    /// The workers have another transport.
    Transport { fixed: String, wanted: String },
}

/// The turn of a call that adds workers. The drop ends it.
pub(super) struct AddTurn<'a> {
    agreement: &'a Agreement,
    pub(super) terms: Terms,
}

impl AddTurn<'_> {
    /// The workers have joined: later managers have the same terms.
    pub(super) fn fix(&self) {
        let mut state = self.agreement.state.lock();
        state.terms.get_or_insert_with(|| self.terms.clone());
    }
}

impl Drop for AddTurn<'_> {
    fn drop(&mut self) {
        self.agreement.state.lock().adding = None;
        self.agreement.turn_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_may_be_waited_for_without_a_limit() {
        assert!(
            Agreement::default()
                .begin(Terms::default(), Duration::MAX)
                .is_ok()
        );
    }
}
