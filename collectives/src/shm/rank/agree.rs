//! Agreement: the operation that all ranks do together, or the reason why they do not. Both follow from the arrivals,
//! which are equal for all ranks (`COLL-3`).

use std::sync::Arc;

use super::{NO_BLOCK, Rank, UnderWay};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Template;
use crate::rendezvous::Arrival;
use crate::shm::share::{MappedBlock, Meeting, Private};

/// The operation on which all ranks agree.
pub(super) struct Agreed {
    pub(super) template: Option<Arc<Template>>,
    pub(super) results: Option<MappedBlock>,
}

/// Whether a rank contributes something else than rank 0: another operation or, if every contribution is read, other
/// tensors.
fn differs(arrival: &Arrival, first: &Arrival, reads_all: bool) -> bool {
    arrival.what != first.what || (reads_all && arrival.signature != first.signature)
}

impl Rank {
    pub(super) fn meeting<'a>(
        &'a self,
        operation: Collective,
        template: &'a Template,
        agreed: &Agreed,
        private: Option<Private>,
    ) -> Meeting<'a> {
        Meeting {
            operation,
            template,
            brought: &self.brought,
            results: agreed.results,
            rank: self.rank,
            private,
        }
    }

    /// Reads the arrivals of all ranks. Returns the agreed operation, or the error that all ranks get (`COLL-3`).
    pub(super) fn agree(&mut self, under_way: &UnderWay) -> Result<Result<Agreed, CommError>, CommError> {
        let (operation, ranks) = (under_way.operation, self.shared.ranks());
        self.arrivals.clear();
        for rank in 0..ranks {
            self.arrivals.push(self.shared.words.arrival(rank, self.number)?);
        }
        let first = self.arrivals.first().copied().unwrap_or_default();
        let reads_all = operation.reads_all();
        let odd = |arrival: &Arrival| arrival.failed || differs(arrival, &first, reads_all);
        if self.arrivals.iter().any(odd) {
            return self.disagree(reads_all).map(Err);
        }
        let template = match operation.root().filter(|_| !reads_all) {
            _ if operation == Collective::Barrier => {
                return Ok(Ok(Agreed {
                    template: None,
                    results: None,
                }));
            }
            Some(root) if root != self.rank => Some(self.template_of(root)?),
            _ => under_way.template.clone(),
        };
        self.brought.clear();
        for rank in 0..ranks {
            let read = !under_way.elsewhere && (reads_all || operation.root() == Some(rank));
            let brought = match (&under_way.vector, read) {
                // Only the rings: the contributions pass through them, chunk by chunk.
                (Some(_), _) => Some(self.block(rank, |it| it.results)?),
                (None, true) => Some(self.block(rank, |it| it.block)?),
                (None, false) => None,
            };
            self.brought.push(brought);
        }
        let mut agreed = Agreed {
            template,
            results: None,
        };
        if let Some(template) = &agreed.template
            && let Some(refused) = self.meeting(operation, template, &agreed, None).refused()
        {
            return Ok(Err(refused));
        }
        if let Some(rank) = operation.gatherer().filter(|_| !under_way.elsewhere) {
            agreed.results = Some(self.block(rank, |it| it.results)?);
        }
        Ok(Ok(agreed))
    }

    /// Returns the reason why the contributions do not match; the same on every rank.
    #[cold]
    pub(super) fn disagree(&mut self, reads_all: bool) -> Result<CommError, CommError> {
        if let Some(rank) = self.arrivals.iter().position(|arrival| arrival.failed) {
            let report = self.read_head(rank)?;
            return Ok(CommError::PeerFailed { rank, report });
        }
        let first = self.arrivals.first().copied().unwrap_or_default();
        let differs = |arrival: &Arrival| differs(arrival, &first, reads_all);
        let rank = self.arrivals.iter().position(differs).unwrap_or_default();
        let mut describe = |rank: usize| {
            let arrival = self.arrivals.get(rank).copied().unwrap_or_default();
            let mut name = Collective::name_of(arrival.what);
            if arrival.block != NO_BLOCK {
                name += " of ";
                name += &self.template_of(rank)?.heads.describe();
            }
            Ok::<_, CommError>(name)
        };
        let (first, other) = (describe(0)?, describe(rank)?);
        Ok(CommError::Mismatch { first, rank, other })
    }

    pub(super) fn block(
        &mut self,
        rank: usize,
        which: impl Fn(&Arrival) -> u64,
    ) -> Result<MappedBlock, CommError> {
        let index = self.arrivals.get(rank).map_or(NO_BLOCK, which);
        let region = self.mapped.block(&self.shared, rank, index)?;
        MappedBlock::new(index as usize, region)
    }

    /// Returns the head: the first `len` bytes of a block that a rank has contributed.
    #[allow(unsafe_code)] // reads the start of a block
    pub(super) fn head_of(&mut self, rank: usize, block: u64, len: u64) -> Result<Vec<u8>, CommError> {
        let region = self.mapped.block(&self.shared, rank, block)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        // SAFETY: the owner of the block has arrived with it, or has sent it, and does not write these bytes before all
        // ranks have finished, or before the receiver has taken the message (`COLL-1`, `COLL-2`).
        Ok(unsafe { region.bytes(0, len)? }.to_vec())
    }

    pub(super) fn read_head(&mut self, rank: usize) -> Result<Vec<u8>, CommError> {
        let arrival = self.arrivals.get(rank).copied().unwrap_or_default();
        self.head_of(rank, arrival.block, arrival.head_len)
    }

    /// Returns the types and shapes of another rank's contribution.
    pub(super) fn template_of(&mut self, rank: usize) -> Result<Arc<Template>, CommError> {
        let encoded = self.read_head(rank)?;
        self.template_with(encoded)
    }

    pub(super) fn template_with(&mut self, encoded: Vec<u8>) -> Result<Arc<Template>, CommError> {
        let known = self
            .root
            .iter()
            .chain(&self.own)
            .find(|known| known.encoded == encoded);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let template = Template::decode(encoded).ok_or(CommError::Corrupt {
            what: "heads that are none",
        })?;
        let template = Arc::new(template);
        self.root = Some(Arc::clone(&template));
        Ok(template)
    }
}
