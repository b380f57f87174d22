//! The checks of a batch before anything is computed: every share makes the same checks, so ranks agree on whether a
//! step takes place.

use crate::layer::Room;
use crate::step::{Batch, Part};

/// The error of a step. The caches are unchanged by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The batch has no parts.
    #[error("a batch without parts")]
    Empty,
    /// A part has no tokens.
    #[error("the part of slot {slot} has no tokens")]
    NoTokens {
        /// The slot of the part.
        slot: u32,
    },
    /// The slot does not exist.
    #[error("slot {slot}, but there are {slots}")]
    NoSlot {
        /// The slot.
        slot: u32,
        /// The number of slots.
        slots: usize,
    },
    /// Two parts of a batch have the same slot.
    #[error("two parts have slot {slot}")]
    Twice {
        /// The slot.
        slot: u32,
    },
    /// The sequence would be longer than its cache.
    #[error("slot {slot} would reach {reached} positions of {positions}")]
    Full {
        /// The slot of the part.
        slot: u32,
        /// The length that the sequence would reach.
        reached: usize,
        /// The length of the cache.
        positions: usize,
    },
    /// A part begins after positions that the cache does not hold.
    #[error("the part of slot {slot} begins at position {start}, but {seen} were seen")]
    Gap {
        /// The slot of the part.
        slot: u32,
        /// The position at which the part begins.
        start: u32,
        /// The number of positions that the cache holds.
        seen: u32,
    },
    /// The token is not in the model's vocabulary.
    #[error("token {token} of slot {slot}, but the model has {vocabulary}")]
    NoToken {
        /// The slot of the part.
        slot: u32,
        /// The token.
        token: u32,
        /// The number of tokens in the vocabulary.
        vocabulary: usize,
    },
    /// The share of the model does not have the requested part.
    #[error("{what} is not here")]
    NotHere {
        /// The requested part.
        what: &'static str,
    },
    /// Hidden states could not be read or made.
    #[error(transparent)]
    Hidden(#[from] selvedge::TensorError),
    /// Candle returned an error.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

/// The lengths of all slots, and the limits of a batch.
pub(crate) struct Watch {
    vocabulary: usize,
    positions: usize,
    seen: Vec<u32>,
}

impl Watch {
    pub(crate) fn new(vocabulary: usize, room: Room) -> Self {
        Watch {
            vocabulary,
            positions: room.positions,
            seen: vec![0; room.slots],
        }
    }

    /// Checks a batch and, if all of it can be done, records its lengths.
    pub(crate) fn admit(&mut self, batch: &Batch) -> Result<(), StepError> {
        if batch.parts.is_empty() {
            return Err(StepError::Empty);
        }
        let mut slots: Vec<u32> = batch.parts.iter().map(|part| part.slot).collect();
        slots.sort_unstable();
        if let Some(slot) = slots.array_windows().find_map(|[a, b]| (a == b).then_some(*a)) {
            return Err(StepError::Twice { slot });
        }
        batch.parts.iter().try_for_each(|part| self.check(part))?;
        for part in &batch.parts {
            if let Some(seen) = self.seen.get_mut(part.slot as usize) {
                *seen = part.start + part.tokens.len() as u32;
            }
        }
        Ok(())
    }

    fn check(&self, part: &Part) -> Result<(), StepError> {
        let (slot, start) = (part.slot, part.start);
        let slots = self.seen.len();
        let Some(&seen) = self.seen.get(slot as usize) else {
            return Err(StepError::NoSlot { slot, slots });
        };
        if part.tokens.is_empty() {
            return Err(StepError::NoTokens { slot });
        }
        if start > seen {
            return Err(StepError::Gap { slot, start, seen });
        }
        let (reached, positions) = (start as usize + part.tokens.len(), self.positions);
        if reached > positions {
            return Err(StepError::Full {
                slot,
                reached,
                positions,
            });
        }
        let vocabulary = self.vocabulary;
        let unknown = part.tokens.iter().find(|token| **token as usize >= vocabulary);
        match unknown {
            Some(&token) => Err(StepError::NoToken {
                slot,
                token,
                vocabulary,
            }),
            None => Ok(()),
        }
    }
}
