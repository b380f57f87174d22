//! Helper threads: a tokio runtime on a thread of its own, for futures that another thread polls. The thread serves their
//! timers and sockets, and runs the tasks that they spawn.
//!
//! Tokio's timers end at whole milliseconds of its clock, and its thread sleeps for a whole number of milliseconds. So a
//! timer is late by the fraction of a millisecond at which that sleep has begun, besides the wake-up, and methods that
//! await one after the other drift. After futures have begun to await, the thread therefore sleeps anew from the
//! beginning of the next millisecond on (`align`); this is one more wake-up for all futures of that millisecond.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::{Notify, oneshot};

use crate::boxed::{boxed_run, boxed_task};
use crate::platform::alarm::Alarm;

/// A millisecond of tokio's clock, in nanoseconds.
const TICK_NS: u32 = 1_000_000;

/// How far after the beginning of a millisecond the thread sleeps anew. Its own start is known to some microseconds.
const AFTER_TICK_NS: u32 = 20_000;

/// The time within which the thread ends, unless a task that users have spawned there blocks it: such a thread is left behind.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A runtime on a thread of its own.
pub(crate) struct HelperThread {
    handle: Handle,
    awaiting: Arc<Notify>,
    stop: Option<oneshot::Sender<()>>,
    /// Disconnected when the thread has nothing more to do.
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HelperThread {
    /// Starts the thread; `None` if the system refuses a runtime or a thread.
    pub(crate) fn start() -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let started = Instant::now();
        let handle = runtime.handle().clone();
        let awaiting = Arc::new(Notify::new());
        let (stop, stopped) = oneshot::channel::<()>();
        let begun = Arc::clone(&awaiting);
        let (ends, ended) = channel::<()>();
        let run = move || {
            let _ends = ends;
            // Without an alarm, timers are as late as tokio's.
            drop(runtime.spawn(boxed_task(async move { drop(align(started, &begun).await) })));
            // The result is always an error: the sender is never used, and its drop stops the thread.
            let _ = runtime.block_on(stopped);
            // Does not wait for blocking work that methods have spawned.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new()
            .name("selvedge-async".to_owned())
            .spawn(boxed_run(run))
            .ok()?;
        Some(Self {
            handle,
            awaiting,
            stop: Some(stop),
            ended: Mutex::new(ended),
            thread: Some(thread),
        })
    }

    /// Makes the runtime the present one of the calling thread.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Records that a future awaits, which may have set a timer.
    pub(crate) fn awaits(&self) {
        self.awaiting.notify_one();
    }
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.ended.get_mut().recv_timeout(ENDS_WITHIN);
        if let (Some(thread), Err(RecvTimeoutError::Disconnected)) = (self.thread.take(), ended) {
            // The result carries no information.
            let _ = thread.join();
        }
    }
}

/// Wakes the runtime's thread at the beginning of the next millisecond of its clock, whenever futures have begun to await.
async fn align(started: Instant, awaiting: &Notify) -> io::Result<()> {
    let alarm = Alarm::new()?;
    loop {
        awaiting.notified().await;
        let into_tick = started.elapsed().subsec_nanos() % TICK_NS;
        let left = TICK_NS - into_tick + AFTER_TICK_NS;
        alarm.after(Duration::from_nanos(left.into())).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_task_that_blocks_the_thread_does_not_block_the_drop() {
        let helper = HelperThread::start().unwrap();
        let (open, gate) = sync_channel::<()>(0);
        let (begun, begins) = channel();
        helper.handle.spawn(async move {
            begun.send(()).unwrap();
            let _ = gate.recv();
        });
        begins.recv().unwrap();
        drop(helper);
        // The task still waits for it.
        open.send(()).unwrap();
    }
}
