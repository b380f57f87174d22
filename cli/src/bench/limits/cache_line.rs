//! A round trip of a cache line between two cores: the floor of everything that spins.
//!
//! With two lines each side writes its own line and reads the other's, as a channel in each direction does. With one
//! line both sides write the same line. One line is faster, because the answer is written where the question has just
//! been read, but no channel can use it, because question and answer may be in flight at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::arena::{Arena, Direction};
use super::patience::spin_until;
use super::peer::STOP;

/// The number of cache lines that carry question and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    Two,
    One,
}

impl Lines {
    /// Returns the number of the `turn`-th question and of its answer. In a shared line the two must differ.
    fn numbers(self, turn: u64) -> (u64, u64) {
        match self {
            Lines::Two => (turn, turn),
            Lines::One => (2 * turn - 1, 2 * turn),
        }
    }

    fn words(self, arena: &Arena) -> (&AtomicU64, &AtomicU64) {
        let there = &arena.line(Direction::There).number;
        match self {
            Lines::Two => (there, &arena.line(Direction::Back).number),
            Lines::One => (there, there),
        }
    }
}

/// Returns a function that sends one question and waits for its answer.
pub(crate) fn ask(arena: &Arena, lines: Lines) -> impl FnMut() -> anyhow::Result<()> {
    let (there, back) = lines.words(arena);
    let mut turn = 0;
    move || {
        turn += 1;
        let (question, answer) = lines.numbers(turn);
        there.store(question, Ordering::Release);
        spin_until(|| (back.load(Ordering::Acquire) == answer).then_some(()))
    }
}

/// Answers questions until the stop number arrives.
pub(crate) fn answer(arena: &Arena, lines: Lines) -> anyhow::Result<()> {
    let (there, back) = lines.words(arena);
    let mut turn = 0;
    loop {
        turn += 1;
        let (question, answer) = lines.numbers(turn);
        let found = spin_until(|| {
            let found = there.load(Ordering::Acquire);
            (found == question || found == STOP).then_some(found)
        })?;
        if found == STOP {
            return Ok(());
        }
        back.store(answer, Ordering::Release);
    }
}
