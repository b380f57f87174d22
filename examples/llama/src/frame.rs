//! The data of a batch that all layers of a stage need, computed once per step.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

use crate::rope::Angles;
use crate::step::{Batch, Part};

/// A batch as rows of one matrix: the tokens of all parts, one after the other.
pub(crate) struct Frame {
    pub(crate) angles: Angles,
    pub(crate) pieces: Vec<Piece>,
}

/// The rows of a part, and the slot and position that they belong to.
pub(crate) struct Piece {
    pub(crate) slot: usize,
    /// Position of the first row.
    pub(crate) start: usize,
    pub(crate) rows: Range<usize>,
    /// The mask added to the scores so that no token attends to later ones, `[rows, start + rows]`; a single token
    /// needs none.
    pub(crate) mask: Option<Tensor>,
}

impl Frame {
    pub(crate) fn new(batch: &Batch, angles: &Angles) -> Result<Self> {
        let positions: Vec<u32> = batch.parts.iter().flat_map(positions).collect();
        let mut pieces = Vec::with_capacity(batch.parts.len());
        let mut next = 0;
        for part in &batch.parts {
            let (start, count) = (part.start as usize, part.tokens.len());
            pieces.push(Piece {
                slot: part.slot as usize,
                start,
                rows: next..next + count,
                mask: (count > 1).then(|| mask(start, count)).transpose()?,
            });
            next += count;
        }
        Ok(Frame {
            angles: angles.at(&positions)?,
            pieces,
        })
    }
}

fn positions(part: &Part) -> Range<u32> {
    part.start..part.start + part.tokens.len() as u32
}

fn mask(start: usize, count: usize) -> Result<Tensor> {
    let seen = start + count;
    let row = |row: usize| (0..seen).map(move |at| if at <= start + row { 0.0 } else { f32::NEG_INFINITY });
    let mask: Vec<f32> = (0..count).flat_map(row).collect();
    Tensor::from_vec(mask, (count, seen), &Device::Cpu)
}
