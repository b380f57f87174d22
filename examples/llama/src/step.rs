//! What goes through the model in one step, and what comes back: parts of several sequences, side by side.

use serde::{Deserialize, Serialize};

/// A part of one sequence: a prompt, a piece of a long prompt, or the token that was sampled last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which of the key-value caches holds the sequence.
    pub slot: u32,
    /// Position of the first token. 0 begins a new sequence in the slot, whatever was there.
    pub start: u32,
    /// At least one.
    pub tokens: Vec<u32>,
    /// How to choose the token that follows; `None` where none is asked for, as inside of a prompt.
    pub sampling: Option<Sampling>,
}

/// How a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 takes the likeliest.
    pub temperature: f32,
    /// The smallest set of likeliest tokens whose probabilities reach this sum is chosen from (nucleus sampling, Holtzman et al.,
    /// 2019); 1 is all of them.
    pub top_p: f32,
    /// Equal seeds choose alike at equal positions.
    pub seed: u64,
}

/// Parts of different sequences, at most one of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// In any order.
    pub parts: Vec<Part>,
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Whose.
    pub slot: u32,
    /// What follows.
    pub token: u32,
    /// Natural logarithm of its probability before temperature and nucleus.
    pub logprob: f32,
}
