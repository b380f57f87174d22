//! The operations that a communicator has prepared.

use crate::communicator::PlanId;
use crate::error::CommError;
use crate::operation::Collective;

/// The operations that a communicator has prepared, by the number of their plan.
#[derive(Default)]
pub(crate) struct Plans(Vec<Collective>);

impl Plans {
    /// Returns the plan of an operation for a group of `ranks` ranks.
    pub(crate) fn plan(&mut self, operation: Collective, ranks: usize) -> Result<PlanId, CommError> {
        if let Some(rank) = operation.root().filter(|root| *root >= ranks) {
            return Err(CommError::NoSuchRank { rank, ranks });
        }
        let known = self.0.iter().position(|plan| *plan == operation);
        Ok(PlanId(known.unwrap_or_else(|| {
            self.0.push(operation);
            self.0.len() - 1
        })))
    }

    /// Returns the operation of a plan.
    pub(crate) fn operation(&self, plan: PlanId) -> Result<Collective, CommError> {
        self.0.get(plan.0).copied().ok_or(CommError::NoSuchPlan)
    }
}
