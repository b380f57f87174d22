//! Launchers: the threads that start worker processes.
//!
//! A start lasts until the new process has reached its program, and a slow file system, a freezer or a debugger can
//! delay that without limit. The control thread must not wait for it, because it detects deaths. So each start has a
//! launcher thread to itself. The caller decides how long it waits for the process, and a process that starts too late
//! is ended on the launcher thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The size of a stack that suffices to start a process.
const STACK_BYTES: usize = 256 * 1024;

struct Launcher {
    jobs: mpsc::Sender<Job>,
    busy: Arc<AtomicBool>,
}

/// The launcher threads. They live as long as this object, because a worker is killed when the thread that started it
/// ends.
#[derive(Default)]
pub(crate) struct Launchers {
    threads: Mutex<Vec<Launcher>>,
}

impl Launchers {
    /// Runs `work` on an idle launcher thread. Starts a thread if none is idle.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<T>> {
        let (result, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            // If the receiver is gone, the result is dropped here.
            let _ = result.send(work());
        });
        let mut threads = self.threads.lock();
        // SYNC launcher-busy, acquire side: pairs with the store after a job. Only this function makes a thread busy,
        // under the lock.
        let idle = threads
            .iter()
            .find(|launcher| !launcher.busy.load(Ordering::Acquire));
        let launcher = match idle {
            Some(launcher) => launcher,
            None => {
                threads.push(Launcher::start()?);
                let Some(launcher) = threads.last() else {
                    return Ok(answer);
                };
                launcher
            }
        };
        launcher.busy.store(true, Ordering::Relaxed);
        // The thread waits for jobs as long as there is a sender, so this cannot fail.
        let _ = launcher.jobs.send(job);
        Ok(answer)
    }
}

impl Launcher {
    fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let run = move || {
            for job in queue {
                job();
                // SYNC launcher-busy, release side: pairs with the load in `Launchers::start`.
                done.store(false, Ordering::Release);
            }
        };
        thread::Builder::new()
            .name("selvedge-launch".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(run)?;
        Ok(Self { jobs, busy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_does_not_come_back_holds_up_no_other() {
        let launchers = Launchers::default();
        let (go_on, stopped) = mpsc::channel::<()>();
        let late = Arc::new(());
        let held = Arc::clone(&late);
        let stuck = launchers
            .start(move || {
                // An error means that the sender was dropped, which ends the wait too.
                let _ = stopped.recv();
                held
            })
            .unwrap();
        let other = launchers.start(|| 7).unwrap();
        assert_eq!(other.blocking_recv(), Ok(7));
        // The receiver is gone; a late result is dropped.
        drop(stuck);
        drop(go_on);
        while Arc::strong_count(&late) > 1 {
            thread::yield_now();
        }
    }
}
