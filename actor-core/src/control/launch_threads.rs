//! Launch threads: the threads that start worker processes.
//!
//! A start lasts until the new process has reached its program, and a slow file system, a freezer or a debugger can
//! delay that without limit. The control thread must not wait for it, because it detects deaths. So each start has a
//! thread to itself. The caller decides how long it waits for the process, and a process that starts too late is ended
//! on its launch thread.

use std::io;
use std::thread;

use crate::boxed::boxed_run;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The size of a stack that suffices to start a process.
const STACK_BYTES: usize = 256 * 1024;

/// The launch threads. They live as long as this object, because a worker is killed when the thread that started it
/// ends.
pub(crate) struct LaunchThreads {
    /// A channel without slots: only a thread that waits for a job can take one.
    jobs: Sender<Job>,
    queue: Receiver<Job>,
}

impl Default for LaunchThreads {
    fn default() -> Self {
        let (jobs, queue) = bounded(0);
        Self { jobs, queue }
    }
}

impl LaunchThreads {
    /// Runs `work` on an idle thread, or on a new one.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<T>> {
        let (result, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            // If the receiver is gone, the result is dropped here.
            let _ = result.send(work());
        });
        let refused = self.jobs.try_send(job);
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = refused {
            let queue = self.queue.clone();
            let run = move || {
                job();
                queue.iter().for_each(|job| job());
            };
            thread::Builder::new()
                .name("selvedge-launch".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(boxed_run(run))?;
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn a_start_that_does_not_come_back_holds_up_no_other() {
        let threads = LaunchThreads::default();
        let (go_on, stopped) = mpsc::channel::<()>();
        let late = Arc::new(());
        let held = Arc::clone(&late);
        let stuck = threads
            .start(move || {
                // An error means that the sender was dropped, which ends the wait too.
                let _ = stopped.recv();
                held
            })
            .unwrap();
        let other = threads.start(|| 7).unwrap();
        assert_eq!(other.blocking_recv(), Ok(7));
        // The receiver is gone; a late result is dropped.
        drop(stuck);
        drop(go_on);
        while Arc::strong_count(&late) > 1 {
            thread::yield_now();
        }
    }
}
