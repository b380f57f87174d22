//! The blocks of all ranks, as mapped by one rank.

use selvedge_channels::{Provider, Region, SEGMENT_HEADER_BYTES, Segment};

use super::layout::MOST_BLOCKS;
use super::state::GroupState;
use crate::error::CommError;

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
        let absent = CommError::Corrupt {
            what: "a rank arrived with a block that it has not",
        };
        let Some(index) = usize::try_from(index).ok().filter(|index| *index < MOST_BLOCKS) else {
            return Err(absent);
        };
        let id = group.words.segment(rank, index)?;
        if self.blocks.len() <= rank {
            self.blocks.resize_with(rank + 1, Vec::new);
        }
        let blocks = self.blocks.get_mut(rank).ok_or(CommError::Corrupt {
            what: "a rank too many",
        })?;
        if blocks.len() <= index {
            blocks.resize_with(index + 1, || None);
        }
        let known = blocks.get_mut(index).ok_or(absent)?;
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
        let region = known.as_ref().map(|(_, region)| region);
        region.ok_or(CommError::Corrupt {
            what: "a block that is not there",
        })
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
