//! The blocks of all ranks, as mapped by one rank.

use selvedge_channels::{Provider, Region, SEGMENT_HEADER_BYTES, Segment};

use super::layout::MOST_BLOCKS;
use super::state::GroupState;
use crate::error::CommError;

const ABSENT: CommError = CommError::Corrupt {
    what: "a rank arrived with a block that it has not",
};

/// The blocks that this rank has mapped, by rank and index, each with the nonce of its segment.
#[derive(Default)]
pub(crate) struct MappedBlocks {
    blocks: Vec<Vec<Option<(u64, Region)>>>,
}

impl MappedBlocks {
    /// Returns block `index` of `rank`, which has arrived with it. Maps the block if it is not mapped yet.
    pub(crate) fn block(
        &mut self,
        group: &GroupState,
        rank: usize,
        index: u64,
    ) -> Result<&Region, CommError> {
        let index = usize::try_from(index).unwrap_or(MOST_BLOCKS);
        let known = self.entry(group, rank, index)?;
        let id = group.words.segment(rank, index)?;
        if known.as_ref().is_none_or(|(nonce, _)| *nonce != id.nonce) {
            // The old mapping is dropped first: it is the smaller block that this one replaces.
            *known = None;
            let segment = match group.kept_block(rank, index, id.nonce) {
                Some(segment) => segment,
                None if group.provider == Provider::Heap => {
                    return Err(CommError::Corrupt {
                        what: "a block of no rank of this process",
                    });
                }
                None => Segment::open(&id)?,
            };
            *known = Some((id.nonce, region_of(&segment)?));
        }
        known.as_ref().map(|(_, region)| region).ok_or(ABSENT)
    }

    /// Returns block `index` of `rank` as it is mapped now. A block that its owner has exchanged meanwhile has the mapping
    /// with which this rank saw it last.
    #[inline]
    pub(crate) fn known(&self, rank: usize, index: usize) -> Result<&Region, CommError> {
        let known = self.blocks.get(rank).and_then(|blocks| blocks.get(index));
        let known = known.and_then(Option::as_ref);
        known.map(|(_, region)| region).ok_or(ABSENT)
    }

    /// Returns the entry of a block.
    fn entry(
        &mut self,
        group: &GroupState,
        rank: usize,
        index: usize,
    ) -> Result<&mut Option<(u64, Region)>, CommError> {
        if self.blocks.is_empty() {
            self.blocks.resize_with(group.ranks(), Vec::new);
        }
        let blocks = self.blocks.get_mut(rank).ok_or(ABSENT)?;
        if blocks.len() <= index && index < MOST_BLOCKS {
            blocks.resize_with(index + 1, || None);
        }
        blocks.get_mut(index).ok_or(ABSENT)
    }
}

/// Returns the region of a block in its segment.
#[allow(unsafe_code)] // takes a region of the segment
pub(super) fn region_of(segment: &Segment) -> Result<Region, CommError> {
    let len = segment.len_bytes().saturating_sub(SEGMENT_HEADER_BYTES);
    // SAFETY: the ranks of the group access a block in turn (`COLL-1`, `COLL-2`): its owner writes it before it arrives
    // with it, and other ranks read only data that the owner has published.
    Ok(unsafe { segment.region(SEGMENT_HEADER_BYTES, len) }?)
}
