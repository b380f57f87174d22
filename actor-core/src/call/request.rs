//! Ordinary calls inside the runtime: their time limit, and the reasons that they give no value.

use std::time::Duration;

use crate::cell::guarded::NoEntry;
use crate::death::Death;
use crate::failure::Failure;
use crate::lane::mailbox::Unserved;

/// The time limit of [`Call::wait`](crate::Call::wait). A call to an inline actor has the same limit: for the wait until the actor is
/// free, and for an async method that awaits.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason that a call gave no value, before the actor's name is added.
#[derive(Debug)]
pub(crate) enum CallFault {
    Failed(Failure),
    Died(Death),
    NoActor,
}

/// Returns the failure of a call to an inline actor that was in use.
pub(crate) fn busy(actor: &str, refused: NoEntry) -> CallFault {
    CallFault::Failed(Failure::Busy(match refused {
        NoEntry::Reentered => {
            format!(
                "inline actor `{actor}` was called by its own method; give it a thread, or call it from outside"
            )
        }
        NoEntry::OutOfTime => format!("inline actor `{actor}` was in use for {CALL_TIMEOUT:?}"),
    }))
}

impl From<Unserved> for CallFault {
    fn from(unserved: Unserved) -> Self {
        match unserved {
            Unserved::Failed(failure) => CallFault::Failed(failure),
            Unserved::NoActor => CallFault::NoActor,
        }
    }
}
