//! Operations that one thread replays for several ranks: a group in this process, of which the thread has all ranks.

use super::brought::{Brought, BroughtError};
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Part;
use crate::rendezvous::Group;
use crate::shm::Rank;

/// The most rounds of polls of one operation. Each round moves at least one rank on, and an operation has a few steps for each.
const ROUNDS_MAX: usize = 10_000;

/// The ranks of a group that is replayed; made when they are first needed.
#[derive(Default)]
pub(super) struct Replay(Vec<Rank>);

impl Replay {
    /// Runs an operation with what each rank brings, and returns what each one gets.
    ///
    /// # Errors
    /// The errors that end a group.
    pub(super) fn run(
        &mut self,
        operation: Collective,
        brought: &[&Brought],
    ) -> Result<Vec<Brought>, CommError> {
        if self.0.len() != brought.len() {
            let group = Group::in_process(brought.len())?.unwatched();
            let ranks: Result<Vec<_>, _> = (0..brought.len()).map(|rank| group.rank(rank)).collect();
            self.0 = ranks?;
        }
        for (rank, brought) in self.0.iter_mut().zip(brought) {
            launch(rank, operation, brought)?;
        }
        let mut outcomes: Vec<Option<Brought>> = self.0.iter().map(|_| None).collect();
        for _ in 0..ROUNDS_MAX {
            for (rank, outcome) in self.0.iter_mut().zip(&mut outcomes) {
                if outcome.is_none() {
                    let polled = rank.poll().transpose();
                    *outcome = polled.map(Brought::outcome).transpose()?;
                }
            }
            if outcomes.iter().all(Option::is_some) {
                return Ok(outcomes.into_iter().flatten().collect());
            }
        }
        Err(CommError::Corrupt {
            what: "an operation of one process that does not come to its end",
        })
    }
}

/// Launches a rank's part. A part that cannot be launched is a failure.
fn launch(rank: &mut Rank, operation: Collective, brought: &Brought) -> Result<(), CommError> {
    let plan = rank.plan(operation)?;
    let error = match brought {
        Brought::Tensors(tensors) => {
            let parts: Vec<Part<'_>> = tensors.iter().map(Part::from).collect();
            match rank.launch(plan, Contribution::Parts(&parts)) {
                Err(error @ CommError::Tensor(_)) => BroughtError::Refused(error.to_string()),
                launched => return launched,
            }
        }
        Brought::Error(error) => error.clone(),
    };
    let report = postcard::to_allocvec(&error).unwrap_or_default();
    rank.launch(plan, Contribution::Failure(&report))
}
