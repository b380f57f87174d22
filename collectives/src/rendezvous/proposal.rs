//! Proposals: what one rank brings to an operation, and what all ranks agree on.

use std::sync::Arc;

use super::block::LeasedBlock;
use super::words::Arrival;
use crate::operation::{Collective, Medium};
use crate::parts::Template;

/// The operation in which this rank wants to take part, with its contribution. Its blocks are in use until it is dropped.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) operation: Collective,
    pub(crate) medium: Medium,
    /// The types and shapes of the contribution.
    pub(crate) template: Option<Arc<Template>>,
    /// The block that begins with the encoded types and shapes, or with the report of a failure.
    pub(crate) block: Option<LeasedBlock>,
    /// The block for results, or the ring of private vectors.
    pub(crate) results: Option<LeasedBlock>,
    /// The number of bytes of the report if the rank contributes a failure.
    pub(crate) failure: Option<usize>,
    /// The number of the first ranks that are known to have arrived.
    pub(crate) arrived: usize,
}

/// The operation on which all ranks agree.
pub(crate) struct Agreed {
    /// The types and shapes of every rank's contribution, or of the root's alone; `None` for a barrier.
    pub(crate) template: Option<Arc<Template>>,
}

impl Proposal {
    /// Proposes an operation to which this rank contributes nothing.
    pub(crate) fn new(operation: Collective) -> Self {
        Proposal {
            operation,
            medium: Medium::Blocks,
            template: None,
            block: None,
            results: None,
            failure: None,
            arrived: 0,
        }
    }

    /// Returns the leased blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &LeasedBlock> {
        self.block.iter().chain(&self.results)
    }

    /// Returns the proposal as other ranks see it.
    pub(super) fn arrival(&self) -> Arrival {
        let index = |block: &Option<LeasedBlock>| {
            block
                .as_ref()
                .map_or(Arrival::NO_BLOCK, |block| block.index as u64)
        };
        let template = self.template.as_deref();
        let heads = template.map_or(0, |template| template.encoded.len());
        Arrival {
            what: self.operation.code() | self.medium.bit(),
            signature: template.map_or(0, |template| template.signature),
            block: index(&self.block),
            results: index(&self.results),
            head_len: self.failure.unwrap_or(heads) as u64,
            failed: self.failure.is_some(),
        }
    }
}
