//! A payload from one core to the other and eight bytes back: copied in from private memory on one, every byte read
//! on the other, both spinning. The floor of every channel that copies a payload once.
//!
//! The cost of a large payload is the cache hand-over rather than the copy. Several slots used in turn give the caches time,
//! few of them stay in the nearest one; so [`COUNTS`] are tried, and the best one is the floor.

#![allow(unsafe_code)] // slots are raw shared memory; who owns one is ARENA-3

use std::sync::atomic::Ordering;

use super::arena::{Arena, Direction, Slots};
use super::patience::spin_until;
use super::peer::STOP;

/// Slots used in turn; the forms of every channel that is measured beside it.
pub(crate) const COUNTS: [usize; 3] = [1, 2, 8];
/// Memory that several slots may take; beyond it the caches are too small to matter.
const ROOM_BYTES: usize = 512 << 20;

/// The divisions of memory to try for one payload size.
pub(crate) fn forms(payload_bytes: usize) -> Vec<Slots> {
    let fits = |count: &usize| *count == 1 || payload_bytes.saturating_mul(*count) <= ROOM_BYTES;
    let form = |count| Slots { count, payload_bytes };
    COUNTS.into_iter().filter(fits).map(form).collect()
}

/// One payload there and its sum back a call.
///
/// # Errors
/// The sum is not that of the payload: memory was not handed over properly.
pub(crate) fn ask(arena: &Arena) -> impl FnMut() -> anyhow::Result<()> {
    let source: Vec<u8> = (0..arena.slots().payload_bytes).map(|at| at as u8).collect();
    let expected = crate::checksum::checksum(&source);
    let (there, back) = (arena.line(Direction::There), arena.line(Direction::Back));
    let mut turn = 0_u64;
    move || {
        turn += 1;
        // SAFETY: ARENA-3: the answer to the last question is here, so every slot is ours again.
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

/// Answers until told to stop.
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
        // SAFETY: ARENA-3: the number just read hands the slot over, until it is answered below.
        let sum = unsafe { arena.sum(seen) };
        back.value.store(sum, Ordering::Relaxed);
        back.number.store(seen, Ordering::Release);
    }
}
