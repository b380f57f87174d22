//! Operations on memory that is not the host's: the ranks agree here on what they do, and learn of each other's failures and
//! deaths; whoever moves the bytes begins when everybody has said that it will. So no rank is ever alone in a transfer.

use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::{DType, Doorbell};

use super::advance::write_head;
use super::{Rank, UnderWay};
use crate::communicator::PlanId;
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Template;
use crate::shm::layout::{Arrival, End};

impl Rank {
    /// As [`launch`](crate::Communicator::launch), of tensors that lie elsewhere: only their types and shapes are brought. The
    /// result is empty, and what was agreed on is in [`agreed`](Self::agreed).
    ///
    /// # Errors
    /// As [`launch`](crate::Communicator::launch).
    pub(crate) fn launch_elsewhere<'a>(
        &mut self,
        plan: PlanId,
        parts: impl ExactSizeIterator<Item = (DType, &'a [usize])> + Clone,
    ) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let mut under_way = UnderWay {
            operation,
            template: None,
            private: None,
            vector: None,
            brought: None,
            results: None,
            elsewhere: true,
        };
        let mut arrival = Arrival {
            what: operation.code() | Collective::ELSEWHERE,
            ..Arrival::default()
        };
        if operation.reads_all() || operation.root() == Some(self.rank) {
            let template = self.template(parts)?;
            let taken = self.blocks.take(&self.shared, template.encoded.len())?;
            write_head(&taken.region, &template.encoded)?;
            arrival.signature = template.signature;
            arrival.head_len = template.encoded.len() as u64;
            under_way.template = Some(template);
            under_way.brought = Some(taken);
        }
        self.arrive(under_way, arrival)
    }

    /// What everybody brings, or the root, to the last operation on tensors that lie elsewhere; `None` for a barrier.
    pub(crate) fn agreed(&self) -> Option<&Arc<Template>> {
        self.agreed.as_ref()
    }

    /// Whether the group has ended, and why.
    pub(crate) fn end(&self) -> Option<CommError> {
        self.ended().err()
    }

    /// Ends the group, because this rank cannot do its share.
    pub(crate) fn give_up(&self) {
        self.shared.end(End::Aborted { rank: self.rank });
    }

    /// How long it waits where nobody says.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.shared.timeout
    }

    /// What wakes whoever drives this rank.
    pub(crate) fn bell(&self) -> Result<Doorbell, CommError> {
        let bell = self.shared.bells.get(self.rank);
        bell.cloned().ok_or(CommError::Idle)
    }
}
