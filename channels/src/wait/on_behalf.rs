//! Work that belongs to one thread, and that whoever rings for the thread does at once instead of waking it.
//!
//! - `BERTH-1` one thread at a time has the work in hand. A thread that rings meanwhile leaves a mark, and whoever has the work looks
//!   again after it has let go, so nothing that was rung for stays behind.
//! - `BERTH-3` a summons, which says that the thread itself is needed, and which the thread clears before its look, is set again before the
//!   thread looks for the last time. So who rings meanwhile sees the summons, or the thread sees what was rung for.
//!
//! Model: `tests/loom.rs`.

use crate::sync::{AtomicBool, Mutex, Ordering, fence};

/// Work that one thread at a time has in hand: the thread to which it belongs, or one that rings for that thread.
#[derive(Debug)]
pub struct OnBehalf<T> {
    work: Mutex<T>,
    /// Whether somebody has rung while another thread had the work in hand.
    is_rung: AtomicBool,
}

impl<T> OnBehalf<T> {
    /// The work, which nobody has in hand.
    pub fn new(work: T) -> Self {
        OnBehalf {
            work: Mutex::new(work),
            is_rung: AtomicBool::new(false),
        }
    }

    /// Does something with the work, as the thread to which it belongs. Waits for another thread that has it in hand. Ask
    /// [`was_rung`](Self::was_rung) afterwards.
    pub fn own<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.work.lock())
    }

    /// Whether somebody has rung while the thread to which the work belongs had it in hand; then that thread looks again.
    pub fn was_rung(&self) -> bool {
        // SYNC berth-rung: as in `ring`.
        fence(Ordering::SeqCst);
        // SeqCst: one order with the marks, each of which is taken away once.
        self.is_rung.swap(false, Ordering::SeqCst)
    }

    /// Has `look` do the work for the thread, and look again as often as others ring meanwhile, at most `looks` times. Returns whether
    /// the thread has to be woken, because `look` says so or because there was no end. Another thread that has the work in hand looks in
    /// this one's place. Call this after publishing what the work is about.
    pub fn ring(&self, looks: usize, mut look: impl FnMut(&mut T) -> bool) -> bool {
        // SYNC berth-rung: the fence orders the mark before the attempt, and the one below orders the end of a use before the look at
        // the mark. So whoever has the work sees the mark, or this thread may have it. SeqCst, and a swap as all changes of the mark:
        // whoever changes it has seen all that was done before the changes before.
        self.is_rung.swap(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for _ in 0..looks {
            let Some(mut work) = self.work.try_lock() else {
                return false;
            };
            // SeqCst: as in `was_rung`; the look comes after.
            self.is_rung.swap(false, Ordering::SeqCst);
            if look(&mut work) {
                return true;
            }
            drop(work);
            fence(Ordering::SeqCst);
            // SeqCst: as above.
            if !self.is_rung.load(Ordering::SeqCst) {
                return false;
            }
        }
        true
    }
}

/// Says that a thread is needed for something that nobody does on its behalf.
#[derive(Debug)]
pub struct Summons(AtomicBool);

impl Default for Summons {
    fn default() -> Self {
        Summons(AtomicBool::new(false))
    }
}

impl Summons {
    /// Summons the thread. Ring for it afterwards.
    pub fn set(&self) {
        // Release: pairs with the swap in `serve`. Who sees the summons looks.
        self.0.store(true, Ordering::Release);
    }

    /// Whether the thread is summoned. Call this after its doorbell was claimed, or its sleep announced.
    pub fn is_set(&self) -> bool {
        // Relaxed: that call has executed a fence.
        self.0.load(Ordering::Relaxed)
    }

    /// Looks, as the thread, if it is summoned. `look` returns whether anything was done, and summons the thread again if something is
    /// left. Returns whether anything was done.
    pub fn serve(&self, mut look: impl FnMut() -> bool) -> bool {
        // Cleared before the look: what is left behind meanwhile sets it again. AcqRel: the look comes after.
        if !self.0.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut has_done = look();
        // Somebody may have rung while the summons was clear, and gone. SYNC berth-summons: the fence orders the summons before the
        // second look. Who rings executes a fence between its change and its look at the summons: it sees that, or this look sees the
        // change.
        fence(Ordering::SeqCst);
        // Relaxed: this thread has stored it.
        if self.0.load(Ordering::Relaxed) {
            has_done |= look();
        }
        has_done
    }
}
