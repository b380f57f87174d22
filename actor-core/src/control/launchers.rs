//! The threads that start worker processes.
//!
//! A start takes until the new process has reached its program: as long as a file system, a freezer or a debugger pleases. The
//! control thread cannot wait for that, for it is what notices deaths. Each start has a thread of these to itself; whoever wants
//! the process waits as long as it likes, and a process that comes too late is ended where it came.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Enough to start a process.
const STACK_BYTES: usize = 256 * 1024;

struct Launcher {
    jobs: mpsc::Sender<Job>,
    busy: Arc<AtomicBool>,
}

/// The threads live as long as this, because workers are killed when the thread that started them ends.
#[derive(Default)]
pub(crate) struct Launchers {
    threads: Mutex<Vec<Launcher>>,
}

impl Launchers {
    /// Has a thread do `work` that has nothing else to do.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<T>> {
        let (result, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody may want it any more; then it is dropped here.
            let _ = result.send(work());
        });
        let mut threads = self.threads.lock();
        // SYNC launcher-busy, acquire side; only this, under the lock, makes a thread busy.
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
        // It waits for jobs as long as there is a sender.
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
                // SYNC launcher-busy, release side.
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
                // An error is a go-on as well.
                let _ = stopped.recv();
                held
            })
            .unwrap();
        let other = launchers.start(|| 7).unwrap();
        assert_eq!(other.blocking_recv(), Ok(7));
        // Given up; what comes late is dropped.
        drop(stuck);
        drop(go_on);
        while Arc::strong_count(&late) > 1 {
            thread::yield_now();
        }
    }
}
