//! Reductions of private vectors between two ranks: the ranks agree on the operation as usual, and then the vectors
//! pass through rings.

use std::sync::Arc;

use selvedge_channels::{Element, Tensor, fault_point};

use super::rank::{Own, Rank, RankState};
use super::share::Private;
use super::staging::{RING_BYTES, Rings, Vector};
use crate::communicator::{Communicator, PlanId};
use crate::error::CommError;
use crate::operation::{Collective, Medium, ReduceOp};
use crate::parts::Template;
use crate::rendezvous::Proposal;

impl Rank {
    /// Reduces the vectors of two ranks, in place.
    pub(super) fn allreduce_pair<E: Element>(
        &mut self,
        plan: PlanId,
        op: ReduceOp,
        values: &mut [E],
    ) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let shape = [values.len()];
        let template = self
            .participant
            .template([(E::DTYPE, shape.as_slice())].into_iter())?;
        let begin = Private(values.as_mut_ptr().cast());
        let vector = Vector::lent(begin, size_of_val(values), E::DTYPE, op);
        self.bring_vector(operation, template, vector)?;
        let outcome = self.wait_with_private();
        let vector = match &mut self.state {
            RankState::Agreeing {
                own: Own::Vector(vector),
                ..
            }
            | RankState::Passing { vector, .. } => Some(vector),
            _ => None,
        };
        // The wait was too long, and the caller may free the values: a copy takes their place.
        if vector.is_some_and(|vector| !vector.keep()) {
            self.state = RankState::Idle;
            self.participant.give_up();
        }
        outcome.map(drop)
    }

    /// Launches the reduction of a vector.
    fn bring_vector(
        &mut self,
        operation: Collective,
        template: Arc<Template>,
        mut vector: Vector,
    ) -> Result<(), CommError> {
        let ring = match &self.ring {
            Some(ring) => ring.clone(),
            None => self.participant.take(RING_BYTES)?,
        };
        vector.begin(self.rank(), self.passed, |offset, len| {
            Ok(ring.region.address(offset, len)?)
        })?;
        let heads = self.participant.heads(&template)?;
        self.ring = Some(ring.clone());
        let proposal = Proposal {
            medium: Medium::Rings,
            template: Some(template),
            block: Some(heads),
            results: Some(ring),
            ..Proposal::new(operation)
        };
        self.arrive(proposal, Own::Vector(vector))
    }

    /// Advances the vectors that are being reduced. Returns `None` while it waits for the other rank.
    pub(super) fn pass_vector(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let RankState::Passing { proposal, vector } = &mut self.state else {
            return Err(CommError::Idle);
        };
        let rings = Rings::new(&self.participant, &self.blocks, self.passed);
        if !vector.pass(&rings)? {
            let other = rings.other();
            self.participant.missing(other, |_| vector.may_pass(&rings))?;
            return Ok(None);
        }
        let result = match (vector.result(), &proposal.template) {
            (Some(kept), Some(template)) => template
                .heads
                .0
                .iter()
                .map(|head| Ok(Tensor::from_raw(head.dtype, &head.shape, kept)?))
                .collect(),
            _ => Ok(Vec::new()),
        };
        self.passed += vector.pairs();
        self.state = RankState::Idle;
        fault_point::at("rank: after its share");
        // Both at once, because no rank waits for a share.
        self.participant.done()?;
        self.participant.finish()?;
        result.map(Some)
    }

    /// Launches an operation as [`launch`](Communicator::launch) does, with a vector that takes one step at each
    /// [`poll`](Communicator::poll).
    #[cfg(all(test, not(miri)))]
    pub(super) fn launch_private(
        &mut self,
        plan: PlanId,
        op: ReduceOp,
        tensor: &Tensor,
    ) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let template = self
            .participant
            .template([(tensor.dtype(), tensor.shape())].into_iter())?;
        let vector = Vector::kept(tensor.bytes().to_vec(), tensor.dtype(), op);
        self.bring_vector(operation, template, vector)
    }
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use selvedge_channels::{Berth, Doorbell, Provider, Segment};

    use super::*;
    use crate::rendezvous::{Group, group_bytes};

    /// A place to sleep whose sleeper falls asleep again at once, and that cannot be woken the second time.
    struct Broken(Doorbell, AtomicUsize);

    impl Berth for Broken {
        fn sleep(&self, _: Option<Instant>, _: &dyn Fn() -> bool) {}

        fn wake(&self) {
            self.0.announce();
            if self.1.fetch_add(1, Ordering::Relaxed) == 1 {
                std::panic::resume_unwind(Box::new("no wake-up"));
            }
        }
    }

    #[test]
    #[allow(unsafe_code)] // takes a region of a segment
    fn a_panic_out_of_the_wait_leaves_no_rank_with_the_callers_memory() {
        let segment = Segment::create(Provider::Heap, 64 + group_bytes(2).unwrap()).unwrap();
        // SAFETY: the region contains the words of a group, which are accessed as atomic words only.
        let region = unsafe { segment.region(64, group_bytes(2).unwrap()) }.unwrap();
        let asleep = Doorbell::heap();
        let broken = Broken(asleep.clone(), AtomicUsize::new(0));
        let bells = vec![Doorbell::heap(), asleep.clone().with_berth(Arc::new(broken))];
        let group = Group::at(region, bells, Provider::Heap, true).unwrap();
        let [mut rank, mut peer] = [0, 1].map(|rank| group.rank(rank).unwrap());
        let theirs = Tensor::from_slice(&[1_u32; 5_000], &[5_000]).unwrap();
        let [_, plan] =
            [&mut rank, &mut peer].map(|it| it.plan(Collective::AllReduce(ReduceOp::Sum)).unwrap());
        peer.launch_private(plan, ReduceOp::Sum, &theirs).unwrap();
        asleep.announce();
        let mut own = vec![1_u32; 5_000];
        let reduce = || rank.allreduce_slice(ReduceOp::Sum, &mut own);
        assert!(catch_unwind(AssertUnwindSafe(reduce)).is_err());
        assert!(matches!(rank.state, RankState::Idle));
        drop(own);
        assert!(rank.poll().is_err());
        // The peer goes on as far as it can.
        let ended = (0..100).find_map(|_| peer.poll().err());
        assert!(matches!(ended, Some(CommError::Aborted { rank: 0 })), "{ended:?}");
        asleep.retract();
    }

    #[test]
    fn a_vector_whose_owner_waits_no_longer_is_reduced_to_its_end() {
        let group = Group::in_process(2).unwrap().timeout(Duration::from_millis(1));
        let [mut late, mut peer] = [0, 1].map(|rank| group.rank(rank).unwrap());
        let values: Vec<u32> = (0..5_000).collect();
        let theirs = Tensor::from_slice(&values, &[5_000]).unwrap();
        let sum = Collective::AllReduce(ReduceOp::Sum);
        let [plan, theirs_plan] = [late.plan(sum).unwrap(), peer.plan(sum).unwrap()];
        assert_eq!(plan, theirs_plan);
        peer.launch_private(theirs_plan, ReduceOp::Sum, &theirs).unwrap();
        // Only the chunks that the other rank staged when it arrived are reduced.
        let mut own = values.clone();
        let outcome = late.allreduce_slice(ReduceOp::Sum, &mut own);
        assert!(matches!(outcome, Err(CommError::Timeout { .. })), "{outcome:?}");
        assert!(own != values, "it came half the way");
        own.fill(7);
        drop(own);
        let mut results = [None, None];
        while results.iter().any(Option::is_none) {
            for (rank, result) in [&mut late, &mut peer].into_iter().zip(&mut results) {
                if result.is_none() {
                    *result = rank.poll().unwrap();
                }
            }
        }
        let doubled: Vec<u32> = values.iter().map(|value| value * 2).collect();
        for result in results.into_iter().flatten() {
            let [tensor] = result.as_slice() else {
                unreachable!("one vector")
            };
            assert_eq!(tensor.as_slice::<u32>().unwrap(), doubled);
        }
    }
}
