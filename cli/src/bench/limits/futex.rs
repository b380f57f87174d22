//! A wake-up there and back, both sides asleep in the kernel between messages: the floor of everything that parks.
//!
//! Between two cores it is mostly the interrupt that ends the other core's sleep, on a virtual machine tens of
//! microseconds; on one core it is the cost of the system calls and of a switch. Sides that the scheduler puts on two
//! cores may also find each other awake again and again, and then sleep rarely.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};

use super::arena::{Arena, Direction};
use super::patience::park_while;
use super::peer::STOP;

/// The number that ends the other side, as wide as a futex.
const STOP_FUTEX: u32 = STOP as u32;

/// Writes a number and wakes whoever sleeps on it.
pub(crate) fn send(word: &AtomicU32, number: u32, flags: Flags) -> anyhow::Result<()> {
    word.store(number, Ordering::Release);
    futex::wake(word, flags, 1)?;
    Ok(())
}

/// One question and its answer a call.
pub(crate) fn ask(arena: &Arena, flags: Flags) -> impl FnMut() -> anyhow::Result<()> {
    let (there, back) = (
        &arena.line(Direction::There).futex,
        &arena.line(Direction::Back).futex,
    );
    let mut turn = 0_u32;
    move || {
        let seen = turn;
        // `STOP_FUTEX` is skipped: it is 71 minutes of the fastest round trips away, and means the end.
        turn = if seen + 1 == STOP_FUTEX { 0 } else { seen + 1 };
        send(there, turn, flags)?;
        park_while(back, seen, flags)?;
        Ok(())
    }
}

/// Answers until told to stop.
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
