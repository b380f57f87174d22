//! A round trip of wake-ups, with both sides asleep in the kernel between messages: the floor of everything that parks.
//!
//! Between two cores most of the time goes to the interrupt that ends the other core's sleep, tens of microseconds on a
//! virtual machine; on one core the time is that of the system calls and of a context switch.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};

use super::arena::{Arena, Direction};
use super::patience::park_while;
use super::peer::STOP;

/// The number that ends the other side, cut to the width of a futex.
const STOP_FUTEX: u32 = STOP as u32;

/// Writes a number and wakes the thread that sleeps on it.
pub(crate) fn send(word: &AtomicU32, number: u32, flags: Flags) -> anyhow::Result<()> {
    word.store(number, Ordering::Release);
    futex::wake(word, flags, 1)?;
    Ok(())
}

/// Returns a function that sends one question and waits for its answer.
pub(crate) fn ask(arena: &Arena, flags: Flags) -> impl FnMut() -> anyhow::Result<()> {
    let (there, back) = (
        &arena.line(Direction::There).futex,
        &arena.line(Direction::Back).futex,
    );
    let mut turn = 0_u32;
    move || {
        let seen = turn;
        // `STOP_FUTEX` is skipped because it ends the other side. The fastest round trips reach it after 71 minutes.
        turn = if seen + 1 == STOP_FUTEX { 0 } else { seen + 1 };
        send(there, turn, flags)?;
        park_while(back, seen, flags)?;
        Ok(())
    }
}

/// Answers questions until the stop number arrives.
pub(crate) fn answer(arena: &Arena, flags: Flags) -> anyhow::Result<()> {
    let (there, back) = (
        &arena.line(Direction::There).futex,
        &arena.line(Direction::Back).futex,
    );
    let mut seen = 0;
    loop {
        seen = park_while(there, seen, flags)?;
        if seen == STOP_FUTEX {
            return Ok(());
        }
        send(back, seen, flags)?;
    }
}
