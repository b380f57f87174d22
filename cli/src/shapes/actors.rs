//! The actors of the measured graphs. They do as little as possible, so that what is measured is the way to them.

use selvedge::prelude::*;

use crate::checksum::checksum;

/// Returns what it gets.
pub struct Echo;

#[actor]
impl Echo {
    /// An echo has no state.
    pub fn new() -> Self {
        Echo
    }

    /// Eight bytes.
    pub fn word(&mut self, x: u64) -> u64 {
        x
    }

    /// Any number of bytes; owned, so that where possible they move.
    pub fn bytes(&mut self, x: Vec<u8>) -> Vec<u8> {
        x
    }

    /// Two values become one; makes graphs of any width for the compiler.
    pub fn join(&mut self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
}

impl Default for Echo {
    fn default() -> Self {
        Echo::new()
    }
}

/// Works on what it gets as long as a stage of a small model does.
pub struct Stage {
    weights: Vec<u8>,
}

/// Bytes that a stage reads for one word: some 100 µs.
const STAGE_BYTES: usize = 4 << 20;

#[actor]
impl Stage {
    /// A stage with weights of its own.
    pub fn new() -> Self {
        Stage {
            weights: vec![1; STAGE_BYTES],
        }
    }

    /// Reads all weights and returns the word.
    pub fn word(&mut self, x: u64) -> u64 {
        std::hint::black_box(checksum(&self.weights));
        x
    }
}

impl Default for Stage {
    fn default() -> Self {
        Stage::new()
    }
}

/// Reads what it gets.
pub struct Reader;

#[actor]
impl Reader {
    /// A reader has no state.
    pub fn new() -> Self {
        Reader
    }

    /// Reads every byte where it lies and returns their sum.
    pub fn sum(&mut self, x: &Tensor) -> u64 {
        checksum(x.bytes())
    }
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new()
    }
}
