//! The interface of communicators, for any implementation.

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
    /// The number of the plan in its communicator.
    pub usize,
);

/// The contribution of a rank to an operation.
#[derive(Clone, Copy, Debug)]
pub enum Contribution<'a> {
    /// Tensors. They are read before the launch returns.
    Parts(&'a [Part<'a>]),
    /// No tensors, because this rank's own work has failed: every rank gets [`CommError::PeerFailed`] with this report.
    /// So a failure never changes which ranks take part in which operation.
    Failure(&'a [u8]),
}

/// The abilities of a communicator, for code that plans with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the backend, for messages.
    pub backend: &'static str,
    /// Types of elements that are supported.
    pub dtypes: Vec<DType>,
    /// Reductions that are supported for all of `dtypes` for which they are defined.
    pub reduce_ops: Vec<ReduceOp>,
    /// Operations that are not supported, by an example of each.
    pub lacks: Vec<Collective>,
    /// True if an operation is complete only when all ranks have launched it, so that all ranks must launch in one
    /// order.
    pub rendezvous: bool,
    /// True if a launch may block the thread until other ranks launch theirs.
    pub launch_blocks: bool,
    /// Pairs of reduction and type that are not supported, although both are listed.
    pub lacks_reductions: Vec<(ReduceOp, DType)>,
    /// True if elements are combined in the order of ranks, so that results are those of a loop over the ranks, bit for
    /// bit. If false, sums of floats differ from that loop by rounding, and the minimum or maximum of a NaN and a
    /// number may be either.
    pub fixed_order: bool,
}

impl Capabilities {
    /// Returns full capabilities: every type and operation, in host memory, without blocking.
    pub fn everything(backend: &'static str) -> Self {
        Capabilities {
            backend,
            dtypes: DType::ALL.to_vec(),
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
    /// Creates a handle that calls `abort`, which must neither block nor panic.
    pub fn new(abort: impl Fn() + Send + Sync + 'static) -> Self {
        AbortHandle(Arc::new(abort))
    }

    /// Ends the communicator.
    pub fn abort(&self) {
        (self.0)();
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AbortHandle")
    }
}

/// A communicator whose tensors stay on a device. The rules of [`Communicator::launch`] and
/// [`poll`](Communicator::poll) hold, except that a result is available when its operation is *enqueued*; the event of
/// the result tells when the operation is done.
#[cfg(feature = "cuda")]
pub trait OnDevice {
    /// Begins an operation on tensors that need not be ready: the device waits for their events.
    ///
    /// # Errors
    /// The errors of [`Communicator::launch`].
    fn launch_on_device(&mut self, plan: PlanId, tensors: &[DeviceTensor]) -> Result<(), CommError>;

    /// Returns the result, once, as soon as the operation is enqueued; `None` while it waits for other ranks. Never
    /// waits.
    ///
    /// # Errors
    /// The errors of [`Communicator::poll`].
    fn poll_on_device(&mut self) -> Result<Option<Vec<DeviceTensor>>, CommError>;
}

/// One rank of a group. It plans an operation once and launches it many times.
///
/// A rank takes part in one operation at a time, in the same order as all other ranks. It is `Send`, and one thread
/// owns it. [`Collective`] describes the operations. The methods that block for a result, such as
/// [`allreduce`](Self::allreduce), are made of `plan`, `launch` and `wait`.
///
/// The macro `communicator_contract!` (feature `contract`) tests an implementation.
pub trait Communicator: Send {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn world_size(&self) -> usize;

    /// Returns the capabilities of the communicator.
    fn capabilities(&self) -> Capabilities;

    /// Prepares an operation. A second call with the same operation returns the same plan.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`] for a root that the group does not have, [`CommError::Unsupported`].
    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError>;

    /// Begins an operation, and returns without waiting for the other ranks.
    ///
    /// # Errors
    /// [`CommError::Busy`] before the last operation is over, [`CommError::NoSuchPlan`], [`CommError::PeerLeft`] after
    /// an operation that has ended with it, and the error that has ended the group. After an error, no operation was begun.
    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError>;

    /// Returns the result of the launched operation, once; `None` while the operation waits for other ranks.
    ///
    /// # Errors
    /// The errors that [`CommError`] describes. After an error the operation is over.
    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError>;

    /// Waits for the result that [`poll`](Self::poll) returns, for at most `timeout`; with `None`, for at most the
    /// communicator's own time limit.
    ///
    /// # Errors
    /// The errors of [`poll`](Self::poll); [`CommError::Timeout`], after which the caller may wait again;
    /// [`CommError::Idle`].
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError>;

    /// Sends tensors to one rank, and returns when they are queued; by then they have been read. Waits until the
    /// message before has been taken, for at most `timeout`; with `None`, for at most the communicator's own time
    /// limit. Messages are independent of operations.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`], [`CommError::NoMessage`] if the time limit passes, [`CommError::NoMessages`] if the
    /// communicator does not support messages, and the error that has ended the group.
    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        let _ = (to, tensors, timeout);
        Err(CommError::NoMessages)
    }

    /// Receives the next message of one rank, in the order in which that rank sent its messages.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let _ = (from, timeout);
        Err(CommError::NoMessages)
    }

    /// Returns the communicator for tensors on a device, if it supports them.
    #[cfg(feature = "cuda")]
    fn on_device(&mut self) -> Option<&mut dyn OnDevice> {
        None
    }

    /// Returns a handle that ends the communicator from any thread.
    fn abort_handle(&self) -> AbortHandle;

    /// Completes the operation in flight, and leaves the group when no other rank needs this rank any more, or after
    /// `timeout` in all. A communicator that is dropped while an operation is in flight aborts the group.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    fn close(self: Box<Self>, timeout: Duration) -> Result<(), CommError>;

    /// Does an operation and waits for its result.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan), [`launch`](Self::launch) and [`wait`](Self::wait).
    fn run(&mut self, operation: Collective, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        let plan = self.plan(operation)?;
        let parts: Vec<Part<'_>> = tensors.iter().map(Part::from).collect();
        self.launch(plan, Contribution::Parts(&parts))?;
        self.wait(None)
    }

    /// Returns every rank's tensors combined, on every rank.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn allreduce(&mut self, op: ReduceOp, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllReduce(op), tensors)
    }

    /// Returns this rank's part of every rank's tensors combined, along the first dimension.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn reduce_scatter(&mut self, op: ReduceOp, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::ReduceScatter(op), tensors)
    }

    /// Returns every rank's tensors combined, on the root; nothing on the other ranks.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn reduce(&mut self, op: ReduceOp, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Reduce { op, root }, tensors)
    }

    /// Returns every rank's tensors one after the other along the first dimension, on every rank.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn allgather(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllGather, tensors)
    }

    /// Returns every rank's tensors one after the other along the first dimension, on the root; nothing on the other
    /// ranks.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn gather(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Gather { root }, tensors)
    }

    /// Returns the root's tensors, on every rank. The tensors of the other ranks are ignored.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn broadcast(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Broadcast { root }, tensors)
    }

    /// Returns this rank's part of the root's tensors, along the first dimension. The tensors of the other ranks are
    /// ignored.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn scatter(&mut self, root: usize, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::Scatter { root }, tensors)
    }

    /// Returns this rank's part of every rank's tensors, one after the other, along the first dimension.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn all_to_all(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
        self.run(Collective::AllToAll, tensors)
    }

    /// Waits until every rank has arrived.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    fn barrier(&mut self) -> Result<(), CommError> {
        self.run(Collective::Barrier, &[]).map(|_| ())
    }

    /// Combines every rank's `values`, in place.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); after an error, parts of `values` may be combined already.
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
        let reduced = result.first().ok_or(CommError::Idle)?.as_slice::<E>()?;
        if reduced.len() != values.len() {
            let (shape, expected, found) = (shape.to_vec(), Some(values.len()), reduced.len());
            return Err(TensorError::Shape {
                shape,
                expected,
                found,
            }
            .into());
        }
        values.copy_from_slice(reduced);
        Ok(())
    }
}

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
