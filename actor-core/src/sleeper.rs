//! A thread that waits: it sleeps, or reads letters meanwhile, until somebody wakes it.

use std::sync::Arc;
use std::time::Instant;

use selvedge_channels::Berth;

use crate::hub::lead::{Lead, Leading};
use crate::looking::Looking;
use crate::sync::{Condvar, Mutex};

/// A thread that waits. Whoever changes what it waits for wakes it afterwards.
pub(crate) struct Sleeper {
    state: Mutex<SleepState>,
    woken: Condvar,
    /// The lead that the thread takes while it waits, if no other thread has it.
    lead: Option<Arc<Lead>>,
    /// The way in which the thread looks at all links before it sleeps.
    looking: Option<Looking>,
}

#[derive(Default)]
struct SleepState {
    /// Whether something has changed since the thread has looked.
    is_called: bool,
    leads: bool,
}

impl Sleeper {
    pub(crate) fn new(lead: Option<Arc<Lead>>) -> Arc<Self> {
        Self::looking(lead, None)
    }

    /// A thread that looks at all links before it sleeps, in this way.
    pub(crate) fn looking(lead: Option<Arc<Lead>>, looking: Option<Looking>) -> Arc<Self> {
        Arc::new(Sleeper {
            state: Mutex::default(),
            woken: Condvar::new(),
            lead,
            looking,
        })
    }

    /// Has the thread look again whether it goes on to wait.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        state.is_called = true;
        let leads = state.leads;
        drop(state);
        match &self.lead {
            Some(lead) if leads => lead.nudge(),
            _ => drop(self.woken.notify_one()),
        }
    }

    /// Waits as long as `goes_on` says, at most until the deadline.
    pub(crate) fn sleep(&self, deadline: Option<Instant>, goes_on: impl Fn() -> bool) {
        if let Some(mut leading) = self.lead.as_ref().and_then(|lead| lead.take()) {
            if let Some(looking) = self.looking {
                leading.look_at_all(looking);
            }
            self.lead(&leading, deadline, &goes_on);
        }
        while goes_on() {
            let mut state = self.state.lock();
            while !std::mem::take(&mut state.is_called) {
                match deadline {
                    None => self.woken.wait(&mut state),
                    Some(deadline) if self.woken.wait_until(&mut state, deadline).timed_out() => return,
                    Some(_) => {}
                }
            }
        }
    }

    /// Reads letters meanwhile.
    fn lead(&self, leading: &Leading<'_>, deadline: Option<Instant>, goes_on: &impl Fn() -> bool) {
        // Said before the first look, so no change is missed: whoever makes one later nudges.
        self.state.lock().leads = true;
        let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        let goes_on_in_time = || goes_on() && in_time();
        let mut waits = goes_on();
        while waits {
            let Some(arrivals) = leading.wait(deadline) else {
                break;
            };
            leading.read(arrivals, goes_on_in_time);
            waits = goes_on_in_time();
        }
        self.state.lock().leads = false;
    }
}

/// The waiter of a doorbell reads letters while it sleeps.
impl Berth for Sleeper {
    fn sleep(&self, deadline: Option<Instant>, is_rung: &dyn Fn() -> bool) {
        Sleeper::sleep(self, deadline, || !is_rung());
    }

    fn wake(&self) {
        Sleeper::wake(self);
    }
}
