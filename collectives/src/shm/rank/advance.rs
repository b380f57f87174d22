//! Progress of one operation, from the contribution to the result.

use selvedge_channels::{Doorbell, Region, Tensor, fault_point};

use super::patience::is_of_the_dying;
use super::{NO_BLOCK, Rank, RankState, UnderWay};
use crate::error::CommError;
use crate::operation::Collective;
use crate::rendezvous::Arrival;
use crate::rendezvous::{Loan, Taken};
use crate::shm::output::tensors;
use crate::shm::share::{Private, Product, gathered};

impl Rank {
    pub(super) fn bring(
        &mut self,
        operation: Collective,
        loan: Loan,
        private: Option<Private>,
    ) -> Result<(), CommError> {
        let Loan { taken, template, .. } = loan;
        write_head(&taken.region, &template.encoded)?;
        let gathers = operation.gatherer() == Some(self.rank);
        let mut results = None;
        // If the gathered size overflows, all ranks refuse the operation later.
        let gathered = || gathered(&template.heads, self.shared.ranks())?.spans(0);
        if gathers && let Some((_, len)) = gathered() {
            results = Some(self.blocks.take(&self.shared, len)?);
        }
        let arrival = Arrival {
            what: operation.code(),
            signature: template.signature,
            head_len: template.encoded.len() as u64,
            ..Arrival::default()
        };
        let under_way = UnderWay {
            operation,
            template: Some(template),
            private,
            vector: None,
            brought: Some(taken),
            results,
            elsewhere: false,
        };
        self.arrive(under_way, arrival)
    }

    pub(super) fn arrive(&mut self, under_way: UnderWay, arrival: Arrival) -> Result<(), CommError> {
        let number = self.number + 1;
        let place = |taken: &Option<Taken>| taken.as_ref().map_or(NO_BLOCK, |taken| taken.index as u64);
        let arrival = Arrival {
            block: place(&under_way.brought),
            results: place(&under_way.results),
            ..arrival
        };
        for taken in [&under_way.brought, &under_way.results].into_iter().flatten() {
            self.blocks.used_in(taken, number);
        }
        fault_point::at("rank: before arriving");
        self.shared.words.arrive(self.rank, number, arrival)?;
        fault_point::at("rank: after arriving");
        self.number = number;
        self.state = RankState::Arriving {
            under_way,
            arrived: 0,
        };
        self.ring_others();
        Ok(())
    }

    pub(super) fn ring_others(&self) {
        Doorbell::ring_all_but(&self.shared.bells, self.rank);
    }

    /// Advances the operation as far as possible. Returns `None` while it waits for other ranks.
    pub(super) fn advance(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let (number, ranks) = (self.number, self.shared.ranks());
        if let RankState::Arriving { arrived, .. } = &mut self.state {
            while *arrived < ranks {
                let rank = *arrived;
                if rank != self.rank && !self.shared.words.has_arrived(rank, number)? {
                    return self.missing(rank);
                }
                *arrived += 1;
            }
            let RankState::Arriving { under_way, .. } = std::mem::replace(&mut self.state, RankState::Idle)
            else {
                return Err(CommError::Idle);
            };
            let agreed = match self.agree(&under_way) {
                Ok(Ok(agreed)) => agreed,
                Err(error) if is_of_the_dying(&error) && self.find_gone().is_none() => {
                    // The end of that rank will be reported; until then, this rank waits for it.
                    let arrived = ranks;
                    self.state = RankState::Arriving { under_way, arrived };
                    return Ok(None);
                }
                Err(error) => return Err(error),
                Ok(Err(refused)) => {
                    self.done()?;
                    self.finish()?;
                    return Err(refused);
                }
            };
            fault_point::at("rank: before its share");
            #[cfg(feature = "cuda")]
            if under_way.elsewhere {
                self.agreed.clone_from(&agreed.template);
            }
            if under_way.vector.is_some() {
                self.state = RankState::Joining { under_way };
                return self.join_vectors();
            }
            let (product, together) = match &agreed.template {
                None => (Product::Nothing, false),
                Some(_) if under_way.elsewhere => (Product::Nothing, false),
                Some(template) => {
                    let mut sources = std::mem::take(&mut self.sources);
                    let meeting = self.meeting(under_way.operation, template, &agreed, under_way.private);
                    let shared = meeting.share(&mut sources);
                    self.sources = sources;
                    shared?
                }
            };
            fault_point::at("rank: after its share");
            self.done()?;
            self.state = RankState::Sharing {
                under_way,
                product,
                done: if together { 0 } else { ranks },
            };
        }
        if let RankState::Joining { .. } = self.state {
            return self.join_vectors();
        }
        let RankState::Sharing { done, .. } = &mut self.state else {
            return Err(CommError::Idle);
        };
        while *done < ranks {
            let rank = *done;
            if rank != self.rank && !self.shared.words.is_done(rank, number)? {
                return self.missing(rank);
            }
            *done += 1;
        }
        let RankState::Sharing { product, .. } = std::mem::replace(&mut self.state, RankState::Idle) else {
            return Err(CommError::Idle);
        };
        let made = tensors(product, &self.shared, self.rank, &mut self.mapped);
        fault_point::at("rank: before finishing");
        self.finish()?;
        fault_point::at("rank: after finishing");
        made.map(Some)
    }

    pub(super) fn done(&self) -> Result<(), CommError> {
        self.shared.words.set_done(self.rank, self.number)?;
        self.ring_others();
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), CommError> {
        Ok(self.shared.words.set_finished(self.rank, self.number)?)
    }

    /// Handles a rank that has not come yet: returns an error if it cannot come any more, else `None`.
    #[cold]
    pub(super) fn missing(&mut self, rank: usize) -> Result<Option<Vec<Tensor>>, CommError> {
        let left = matches!(self.shared.words.holder(rank)?, Some((_, true)));
        // Checked again: the rank may have come, and then left.
        if self.has_come(rank)? {
            return Ok(None);
        }
        self.ended()?;
        if left {
            Err(CommError::PeerLeft { rank })
        } else {
            Ok(None)
        }
    }
}

pub(super) fn write_head(region: &Region, bytes: &[u8]) -> Result<(), CommError> {
    write_bytes(region, 0, bytes)
}

/// Writes into a block that was taken, at bytes that no other rank reads.
#[allow(unsafe_code)] // writes into a region
pub(super) fn write_bytes(region: &Region, offset: usize, bytes: &[u8]) -> Result<(), CommError> {
    let to = region.address(offset, bytes.len())?;
    // SAFETY: the region has room for these bytes, and no one else accesses them: they are a head before the rank has
    // arrived (`COLL-2`), or the slice that the rank reduces itself.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}
