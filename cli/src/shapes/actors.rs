//! The actors of the measured graphs. They do as little as possible, so that the time of a message to them is measured.

use selvedge::prelude::*;

use crate::checksum::checksum;

/// An actor that returns its argument.
pub struct Echo;

#[actor]
impl Echo {
    /// Creates an echo, which has no state.
    pub fn new() -> Self {
        Echo
    }

    /// Returns eight bytes.
    pub fn word(&mut self, x: u64) -> u64 {
        x
    }

    /// Returns any number of bytes. The argument is owned, so that it moves without a copy if possible.
    pub fn bytes(&mut self, x: Vec<u8>) -> Vec<u8> {
        x
    }

    /// Joins two values into one; lets graphs of any width be built for the compiler.
    pub fn join(&mut self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
}

impl Default for Echo {
    fn default() -> Self {
        Echo::new()
    }
}

/// An actor that works on each argument for as long as a stage of a small model does.
pub struct Stage {
    weights: Vec<u8>,
}

/// The bytes that a stage reads for one word; reading them takes some 100 µs.
const STAGE_BYTES: usize = 4 << 20;

#[actor]
impl Stage {
    /// Creates a stage with weights of its own.
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

/// An actor that reads its argument.
pub struct Reader;

#[actor]
impl Reader {
    /// Creates a reader, which has no state.
    pub fn new() -> Self {
        Reader
    }

    /// Returns the number of bytes, and reads none.
    pub fn length(&mut self, x: &Tensor) -> u64 {
        x.bytes().len() as u64
    }

    /// Reads every byte in place and returns their sum.
    pub fn sum(&mut self, x: &Tensor) -> u64 {
        checksum(x.bytes())
    }
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new()
    }
}
