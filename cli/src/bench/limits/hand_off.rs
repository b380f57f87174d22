//! A payload from one core to another and eight bytes back: one core copies the payload in from private memory, the
//! other reads every byte, and both spin. The floor of every channel that copies a payload once.
//!
//! The cost of a large payload is the transfer between caches rather than the copy. Several slots used in turn give the
//! caches time, while few slots stay in the nearest cache; so the measurement tries all of [`COUNTS`], and the best one
//! is the floor.

#![allow(unsafe_code)] // slots are raw shared memory; ARENA-3 says which side owns a slot

use std::sync::atomic::Ordering;

use super::arena::{Arena, Direction, Slots};
use super::patience::spin_until;
use super::peer::STOP;

/// The numbers of slots to try, also for every channel that is compared with this floor.
pub(crate) const COUNTS: [usize; 3] = [1, 2, 8];
/// The most memory that several slots may take; beyond it the slots do not fit in the caches.
const ROOM_BYTES: usize = 512 << 20;

/// Returns the divisions of memory to try for one payload size.
pub(crate) fn forms(payload_bytes: usize) -> Vec<Slots> {
    let fits = |count: &usize| *count == 1 || payload_bytes.saturating_mul(*count) <= ROOM_BYTES;
    let form = |count| Slots { count, payload_bytes };
    COUNTS.into_iter().filter(fits).map(form).collect()
}

/// Returns a function that sends one payload and waits for its sum.
///
/// # Errors
/// The sum is not that of the payload: the memory was not handed over correctly.
pub(crate) fn ask(arena: &Arena) -> impl FnMut() -> anyhow::Result<()> {
    let source: Vec<u8> = (0..arena.slots().payload_bytes).map(|at| at as u8).collect();
    let expected = crate::checksum::checksum(&source);
    let (there, back) = (arena.line(Direction::There), arena.line(Direction::Back));
    let mut turn = 0_u64;
    move || {
        turn += 1;
        // SAFETY: ARENA-3: the answer to the last question has arrived, so every slot belongs to this side again.
        unsafe { arena.copy_in(turn, &source) };
        there.number.store(turn, Ordering::Release);
        spin_until(|| (back.number.load(Ordering::Acquire) == turn).then_some(()))?;
        anyhow::ensure!(
            back.value.load(Ordering::Relaxed) == expected,
            "the payload changed on its way"
        );
        Ok(())
    }
}

/// Answers payloads until the stop number arrives.
pub(crate) fn answer(arena: &Arena) -> anyhow::Result<()> {
    let (there, back) = (arena.line(Direction::There), arena.line(Direction::Back));
    let mut seen = 0;
    loop {
        seen = spin_until(|| {
            let found = there.number.load(Ordering::Acquire);
            (found != seen).then_some(found)
        })?;
        if seen == STOP {
            return Ok(());
        }
        // SAFETY: ARENA-3: the number just read hands the slot over to this side, until the answer below.
        let sum = unsafe { arena.sum(seen) };
        back.value.store(sum, Ordering::Relaxed);
        back.number.store(seen, Ordering::Release);
    }
}
