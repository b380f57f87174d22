//! Operations on memory other than the host's. The ranks agree here on the operation, and learn of each other's
//! failures and deaths. The backend moves the bytes when all ranks have said that they will take part, so no rank is
//! ever alone in a transfer.

use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::{DType, Doorbell};

use super::advance::write_head;
use super::{Rank, UnderWay};
use crate::communicator::PlanId;
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Template;
use crate::rendezvous::{Arrival, End};

impl Rank {
    /// Launches an operation as [`launch`](crate::Communicator::launch) does, on tensors that lie elsewhere: the rank
    /// brings only their types and shapes. The result is empty, and [`agreed`](Self::agreed) returns the agreed types
    /// and shapes.
    ///
    /// # Errors
    /// The errors of [`launch`](crate::Communicator::launch).
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

    /// Returns the types and shapes that all ranks, or the root, brought to the last operation on tensors that lie
    /// elsewhere; `None` for a barrier.
    pub(crate) fn agreed(&self) -> Option<&Arc<Template>> {
        self.agreed.as_ref()
    }

    /// Returns the error that has ended the group, if the group has ended.
    pub(crate) fn end(&self) -> Option<CommError> {
        self.ended().err()
    }

    /// Ends the group, because this rank cannot do its share.
    pub(crate) fn give_up(&self) {
        self.shared.end(End::Aborted { rank: self.rank });
    }

    /// Returns the time limit of waits for which the caller gives none.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.shared.timeout
    }

    /// Returns the bell that wakes the thread that drives this rank.
    pub(crate) fn bell(&self) -> Result<Doorbell, CommError> {
        let bell = self.shared.bells.get(self.rank);
        bell.cloned().ok_or(CommError::Idle)
    }
}
