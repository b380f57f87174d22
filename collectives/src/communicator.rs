//! What a communicator is, whoever makes it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "cuda")]
use selvedge_channels::device::DeviceTensor;
use selvedge_channels::{DType, Element, Tensor, TensorError, bytes_of};

use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;

/// An operation that a communicator has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanId(
    /// Its number in the communicator that has it.
    pub usize,
);

/// What a rank brings to an operation.
#[derive(Clone, Copy, Debug)]
pub enum Contribution<'a> {
    /// Tensors. They are read before the launch returns.
    Parts(&'a [Part<'a>]),
    /// No tensors, because this rank's own work has failed: every rank gets [`CommError::PeerFailed`] with this report. So a
    /// failure never changes who takes part in what.
    Failure(&'a [u8]),
}

/// What a communicator can do, for who plans with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Its name, for people.
    pub backend: &'static str,
    /// Types of elements that can be moved.
    pub dtypes: Vec<DType>,
    /// Reductions that are done on all of `dtypes` for which they are defined.
    pub reduce_ops: Vec<ReduceOp>,
    /// Operations that are not done at all, by an example of each.
    pub lacks: Vec<Collective>,
    /// An operation is complete only when all ranks have launched it, so launches must be in one order on all ranks.
    pub rendezvous: bool,
    /// A launch may block the thread until others launch theirs.
    pub launch_blocks: bool,
    /// Reductions of types that are not done, though both are listed.
    pub lacks_reductions: Vec<(ReduceOp, DType)>,
    /// Elements are joined in the order of ranks, so that results are those of a loop over the ranks, bit for bit. Where not,
    /// sums of floats differ from it by rounding, and the smaller and larger of a NaN and a number is either.
    pub fixed_order: bool,
}

impl Capabilities {
    /// Everything there is, in the memory of the host, without blocking.
    pub fn everything(backend: &'static str) -> Self {
        use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        Capabilities {
            backend,
            dtypes: vec![U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, Bool],
            reduce_ops: ReduceOp::ALL.to_vec(),
            lacks: Vec::new(),
            rendezvous: true,
            launch_blocks: false,
            lacks_reductions: Vec::new(),
            fixed_order: true,
        }
    }
}

/// Ends a communicator from any thread, any number of times: every rank that waits, or launches later, gets
/// [`CommError::Aborted`].
#[derive(Clone)]
pub struct AbortHandle(Arc<dyn Fn() + Send + Sync>);

impl AbortHandle {
    /// One that calls `abort`, which must neither block nor panic.
    pub fn new(abort: impl Fn() + Send + Sync + 'static) -> Self {
        AbortHandle(Arc::new(abort))
    }

    /// Ends it.
    pub fn abort(&self) {
        (self.0)();
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AbortHandle")
    }
}

/// A communicator whose tensors stay on a device. Everything that is said of [`Communicator::launch`] and
/// [`poll`](Communicator::poll) holds, but that a result is there when its operation is *enqueued*; its event says when it is
/// done.
#[cfg(feature = "cuda")]
pub trait OnDevice {
    /// Begins an operation on tensors that need not be ready: the device waits for their events.
    ///
    /// # Errors
    /// As [`Communicator::launch`].
    fn launch_on_device(&mut self, plan: PlanId, tensors: &[DeviceTensor]) -> Result<(), CommError>;

    /// The result, once, as soon as the operation is enqueued; `None` while it waits for other ranks. Never waits.
    ///
    /// # Errors
    /// As [`Communicator::poll`].
    fn poll_on_device(&mut self) -> Result<Option<Vec<DeviceTensor>>, CommError>;
}

/// One rank of a group: plans an operation once, launches it many times.
///
/// A rank takes part in one operation at a time, in the same order as all others; it is `Send`, and one thread has it. How
/// operations are named is in [`Collective`]. The methods that block for a result, [`allreduce`](Self::allreduce) and its kin,
/// are made of `plan`, `launch` and `wait`.
///
/// An implementation is tried by [`communicator_contract!`](crate::communicator_contract).
pub trait Communicator: Send {
    /// Its number, from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn world_size(&self) -> usize;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Prepares an operation; the same again gives the same plan.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`] for a root that there is not, [`CommError::Unsupported`].
    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError>;

    /// Begins an operation, and returns before others have.
    ///
    /// # Errors
    /// [`CommError::Busy`] before the last one is over, [`CommError::NoSuchPlan`], and what has ended the group. Then nothing
    /// was begun.
    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError>;

    /// The result of what was launched, once; `None` while it waits for others.
    ///
    /// # Errors
    /// As [`CommError`] says of each. After one the operation is over.
    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError>;

    /// As [`poll`](Self::poll), waiting, at most so long or as long as the communicator was made to.
    ///
    /// # Errors
    /// As [`poll`](Self::poll); [`CommError::Timeout`], after which it can be waited for again; [`CommError::Idle`].
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError>;

    /// Sends tensors to one rank, and returns when they are queued: they have been read. Waits, at most so long or as long as the
    /// communicator was made to, until the message before has been taken. Messages are independent of operations.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`], [`CommError::NoMessage`] when it takes too long, [`CommError::NoMessages`] where the
    /// communicator has none, and what has ended the group.
    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        let _ = (to, tensors, timeout);
        Err(CommError::NoMessages)
    }

    /// The next message of one rank, in the order in which it sent them.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let _ = (from, timeout);
        Err(CommError::NoMessages)
    }

    /// The same communicator for tensors on a device, where it has such.
    #[cfg(feature = "cuda")]
    fn on_device(&mut self) -> Option<&mut dyn OnDevice> {
        None
    }

    /// What ends the communicator from any thread.
    fn abort_handle(&self) -> AbortHandle;

    /// Brings what is under way to its end and leaves the group when nobody needs this rank any more. To drop a communicator
    /// where an operation is under way is to abort the group.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn close(self: Box<Self>, timeout: Duration) -> Result<(), CommError>;

    /// Does an operation, waiting for it.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), [`launch`](Self::launch) and [`wait`](Self::wait).
    fn run(&mut self, operation: Collective, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        let plan = self.plan(operation)?;
        let parts: Vec<Part<'_>> = tensors.iter().map(Part::from).collect();
        self.launch(plan, Contribution::Parts(&parts))?;
        self.wait(None)
    }

    /// Every rank's tensors joined, on every rank.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn allreduce(&mut self, op: ReduceOp, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllReduce(op), tensors)
    }

    /// Every rank's tensors joined; this rank's part of them, along the first dimension.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn reduce_scatter(&mut self, op: ReduceOp, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::ReduceScatter(op), tensors)
    }

    /// Every rank's tensors joined, on the root; nothing elsewhere.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn reduce(&mut self, op: ReduceOp, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Reduce { op, root }, tensors)
    }

    /// Every rank's tensors one after the other along the first dimension, on every rank.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn allgather(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllGather, tensors)
    }

    /// Every rank's tensors one after the other along the first dimension, on the root; nothing elsewhere.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn gather(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Gather { root }, tensors)
    }

    /// The root's tensors, on every rank; what the others bring is not looked at.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn broadcast(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Broadcast { root }, tensors)
    }

    /// This rank's part of the root's tensors, along the first dimension; what the others bring is not looked at.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn scatter(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Scatter { root }, tensors)
    }

    /// This rank's part of every rank's tensors, one after the other, along the first dimension.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn all_to_all(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllToAll, tensors)
    }

    /// Waits until every rank has come.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn barrier(&mut self) -> Result<(), CommError> {
        self.run(Collective::Barrier, &[]).map(|_| ())
    }

    /// Joins every rank's `values`, in place.
    ///
    /// # Errors
    /// As [`run`](Self::run); parts of `values` may be joined already.
    fn allreduce_slice<E: Element>(&mut self, op: ReduceOp, values: &mut [E]) -> Result<(), CommError>
    where
        Self: Sized,
    {
        let plan = self.plan(Collective::AllReduce(op))?;
        let shape = [values.len()];
        let part = Part {
            dtype: E::DTYPE,
            shape: &shape,
            bytes: bytes_of(values),
        };
        self.launch(plan, Contribution::Parts(&[part]))?;
        let result = self.wait(None)?;
        let joined = result.first().ok_or(CommError::Idle)?.as_slice::<E>()?;
        if joined.len() != values.len() {
            let (shape, expected, found) = (shape.to_vec(), Some(values.len()), joined.len());
            return Err(TensorError::Shape {
                shape,
                expected,
                found,
            }
            .into());
        }
        values.copy_from_slice(joined);
        Ok(())
    }
}
