//! Berths: places where the waiter of a doorbell sleeps, if that is not the word of the doorbell.
//!
//! A waiter that could do something useful before it is rung, such as to read what another host has sent, sleeps in a berth
//! that does it. Only a handle that knows the berth wakes its sleeper, so every ringer of such a doorbell is in the
//! waiter's process and has a clone of that handle.

use std::time::Instant;

/// A place where the waiter of a doorbell sleeps.
pub trait Berth: Send + Sync {
    /// Sleeps until somebody [wakes](Self::wake) the sleeper, at most until the deadline. May return sooner. `is_rung` says whether
    /// the doorbell was rung since the waiter announced its sleep, and whoever rings it then calls `wake`.
    fn sleep(&self, deadline: Option<Instant>, is_rung: &dyn Fn() -> bool);

    /// Ends the present sleep, or the next one. Called by whoever rings, also from within the sleeper's `sleep`. Must neither
    /// block nor run user code.
    fn wake(&self);
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Berth;
    use crate::wait::doorbell::Doorbell;
    use crate::wait::waiting::Waiting;

    /// Sleeps until it is told to wake, and counts how often it was.
    struct Cot {
        told: Mutex<Receiver<()>>,
        tell: Sender<()>,
        wakes: AtomicUsize,
    }

    impl Berth for Cot {
        fn sleep(&self, deadline: Option<Instant>, is_rung: &dyn Fn() -> bool) {
            let left = deadline.unwrap().saturating_duration_since(Instant::now());
            let woken = self.told.lock().unwrap().recv_timeout(left);
            assert!(woken.is_err() || is_rung(), "whoever wakes has rung before");
        }

        fn wake(&self) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.tell.send(()).unwrap();
        }
    }

    #[test]
    fn a_waiter_sleeps_in_its_berth_and_is_woken_there_once_for_each_sleep() {
        let (tell, told) = channel();
        let cot = Arc::new(Cot {
            told: Mutex::new(told),
            tell,
            wakes: AtomicUsize::new(0),
        });
        let bell = Doorbell::heap().with_berth(Arc::clone(&cot) as Arc<dyn Berth>);
        bell.ring();
        assert_eq!(cot.wakes.load(Ordering::Relaxed), 0, "nobody sleeps");
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(!bell.wait(&Waiting::Park, Some(soon), || false));
        let late = Instant::now() + Duration::from_secs(30);
        for rouses in [false, true] {
            let (open, sleeps) = (AtomicBool::new(false), AtomicBool::new(false));
            let waits = || {
                let ready = || {
                    sleeps.store(true, Ordering::Release);
                    open.load(Ordering::Acquire)
                };
                bell.wait(&Waiting::Park, Some(late), ready) && Instant::now() < late
            };
            thread::scope(|scope| {
                let waiter = scope.spawn(waits);
                while !sleeps.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                open.store(true, Ordering::Release);
                if rouses {
                    bell.rouse()
                } else {
                    bell.ring()
                }
                bell.ring();
                assert!(waiter.join().unwrap());
            });
        }
        assert!(cot.wakes.load(Ordering::Relaxed) <= 3);
    }
}
