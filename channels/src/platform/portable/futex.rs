//! Futexes of this process, by the parking lot: a table of sleeping threads by the address of the word (the crate
//! `parking_lot_core`, after WebKit's `WTF::ParkingLot`). The check of the word and the sleep are one step, because a
//! waker takes the lock of the address's bucket.
#![allow(unsafe_code)] // two calls whose callbacks must not panic or park

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, park, unpark_one};

/// The threads that may use a futex word. Both kinds are threads of this process here.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// Threads of this process, by a word on the heap.
    Process,
    /// Threads that use the word of a segment, which is the heap's too.
    Host,
}

/// Sleeps while `word` holds `expected`, at most until `deadline`. May return early, which means "check again".
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>, _: Reach) {
    // Relaxed: the lock of the bucket orders the load after the store of a waker that had the lock before; a waker that
    // has it later finds this thread.
    let holds = || word.load(Ordering::Relaxed) == expected;
    // SAFETY: the callbacks neither panic nor call the parking lot. The key is the address of a word that only this
    // module parks on: it is borrowed as an `AtomicU32`, so no lock of `parking_lot` lies there.
    unsafe {
        park(
            word.as_ptr().addr(),
            holds,
            || (),
            |_, _| (),
            DEFAULT_PARK_TOKEN,
            deadline,
        )
    };
}

/// Wakes one thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32, _: Reach) {
    // SAFETY: the callback neither panics nor calls the parking lot; the key is as in `wait`.
    unsafe { unpark_one(word.as_ptr().addr(), |_| DEFAULT_UNPARK_TOKEN) };
}

#[inline]
pub(crate) fn relax() {
    std::hint::spin_loop();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleeper_is_woken_ends_at_its_deadline_and_does_not_sleep_on_a_changed_word() {
        let word = AtomicU32::new(1);
        wait(&word, 0, None, Reach::Process);
        let deadline = Instant::now() + Duration::from_millis(2);
        wait(&word, 1, Some(deadline), Reach::Host);
        assert!(Instant::now() >= deadline);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 1 {
                    wait(&word, 1, None, Reach::Process);
                }
            });
            word.store(2, Ordering::Release);
            wake(&word, Reach::Process);
        });
    }
}
