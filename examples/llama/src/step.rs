//! The input and output of one step: parts of several sequences, side by side.

use serde::{Deserialize, Serialize};

/// A part of one sequence: a prompt, a piece of a long prompt, or the token that was sampled last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The key-value cache that holds the sequence.
    pub slot: u32,
    /// The position of the first token. 0 begins a new sequence in the slot, whatever the slot held.
    pub start: u32,
    /// The tokens; at least one.
    pub tokens: Vec<u32>,
    /// The way to choose the token that follows; `None` if no token is wanted, as inside a prompt.
    pub sampling: Option<Sampling>,
}

impl Part {
    /// Cuts the part into parts of at most `tokens_max` tokens (at least 1), to be submitted in this order. Only the
    /// last one asks for a token.
    pub fn pieces(self, tokens_max: usize) -> impl Iterator<Item = Part> {
        let Part {
            slot,
            start,
            tokens,
            sampling,
        } = self;
        let (size, all) = (tokens_max.max(1), tokens.len());
        (0..all).step_by(size).map(move |from| {
            let end = from.saturating_add(size).min(all);
            Part {
                slot,
                start: start + from as u32,
                tokens: tokens.get(from..end).unwrap_or_default().to_vec(),
                sampling: sampling.filter(|_| end == all),
            }
        })
    }
}

/// The way in which a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// The temperature; 0 takes the likeliest token.
    pub temperature: f32,
    /// The probability of the nucleus: the token is chosen from the smallest set of likeliest tokens whose
    /// probabilities reach this sum (nucleus sampling, Holtzman et al., 2019); 1 includes all tokens.
    pub top_p: f32,
    /// The seed; equal seeds choose alike at equal positions.
    pub seed: u64,
}

/// Parts of different sequences, at most one of each sequence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The parts, in any order.
    pub parts: Vec<Part>,
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// The slot of the sequence.
    pub slot: u32,
    /// The token that follows.
    pub token: u32,
    /// The natural logarithm of its probability before temperature and nucleus.
    pub logprob: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_part_in_order_and_the_last_asks_for_a_token() {
        let sampling = Some(Sampling {
            temperature: 0.0,
            top_p: 1.0,
            seed: 7,
        });
        let part = |start, tokens: &[u32], sampling| Part {
            slot: 3,
            start,
            tokens: tokens.to_vec(),
            sampling,
        };
        let pieces = |most| part(5, &[1, 2, 3, 4], sampling).pieces(most).collect::<Vec<_>>();
        assert_eq!(pieces(3), [part(5, &[1, 2, 3], None), part(8, &[4], sampling)]);
        assert_eq!(pieces(2), [part(5, &[1, 2], None), part(7, &[3, 4], sampling)]);
        for most in [4, 5, usize::MAX] {
            assert_eq!(pieces(most), [part(5, &[1, 2, 3, 4], sampling)]);
        }
        assert_eq!(pieces(0).len(), 4);
    }
}
