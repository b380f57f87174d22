//! The await thread: pumps while tasks `.await` and no thread blocks. The first of these tasks starts it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, thread};

use parking_lot::{Condvar, Mutex};
use selvedge_core::NoEntry;

use crate::run::driver::Driver;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::ExecError;

#[derive(Default)]
struct AwaiterState {
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

/// The await thread, and whether it has ended.
#[derive(Default)]
pub(crate) struct Awaiter {
    state: Mutex<AwaiterState>,
    ended: Condvar,
}

impl Awaiter {
    fn start(&self, engine: &Arc<Engine>) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.thread.is_some() || state.ended {
            return Ok(());
        }
        let engine = Arc::clone(engine);
        let serve = move || {
            engine.pump_for_awaits();
            engine.awaiter.state.lock().ended = true;
            engine.awaiter.ended.notify_all();
        };
        let thread = thread::Builder::new().name("selvedge-await".into());
        state.thread = Some(thread.spawn(serve)?);
        Ok(())
    }

    /// Waits until the await thread has ended, if there is one and it is not the caller. A thread that still runs at
    /// the deadline is left running.
    pub(crate) fn join(&self, deadline: Instant) {
        let mut state = self.state.lock();
        let Some(thread) = state.thread.take() else { return };
        if thread.thread().id() == thread::current().id() {
            return;
        }
        while !state.ended {
            if self.ended.wait_until(&mut state, deadline).timed_out() && !state.ended {
                return;
            }
        }
        drop(state);
        let _ = thread.join();
    }
}

impl Engine {
    /// Ensures that a thread pumps while tasks await results.
    pub(crate) fn serve_awaits(self: &Arc<Self>) -> Result<(), ExecError> {
        self.awaiter.start(self).map_err(|error| ExecError::Internal {
            message: format!("no thread to serve `.await`: {error}").into(),
        })?;
        self.turn.rouse();
        Ok(())
    }

    fn pump_for_awaits(&self) {
        let idle = |driver: &Driver| !driver.wakers.is_awaited() && self.ended().is_none();
        let changed = |driver: &mut Driver| {
            (driver.wakers.is_hurried() || !driver.wakers.is_awaited()).then_some(Ok(()))
        };
        let endless = TimeLimit::new(None, "");
        loop {
            let looked = self.drive(&endless, |driver| match idle(driver) {
                true => Err(self.turn.follow()),
                false => Ok(driver.wakers.first_late()),
            });
            let late = match looked {
                Ok(Err(following)) => {
                    following.wait(None);
                    continue;
                }
                Ok(Ok(late)) => late,
                Err(_) => None,
            };
            let left = late.map(|late| late.saturating_duration_since(Instant::now()));
            match self.wait_for(&TimeLimit::new(left, ""), changed) {
                Ok(Ok(())) if self.ended().is_none() => {}
                Err(NoEntry::OutOfTime) => {
                    let _ = self.drive(&endless, |driver| driver.wakers.wake_late(Instant::now()));
                }
                _ => {
                    // Each task looks for itself how the graph ended.
                    let _ = self.drive(&endless, |driver| driver.wakers.wake());
                    return;
                }
            }
        }
    }
}
