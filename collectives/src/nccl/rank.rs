//! One rank over NCCL, as a [`Communicator`] for tensors of the host and of its device.

use std::time::{Duration, Instant};

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceError, DeviceMemory, DeviceTensor, Gpu, Stream, TensorLayout};

use super::NAME;
use super::backend::capabilities;
use super::connect::{Connecting, Connection, settle};
use super::operation::DeviceOperation;
use super::phase::{Contributed, Destination, Outcome, Phase};
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, OnDevice, PlanId, Plans};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Part;
use crate::rendezvous::{Group, Participant};

/// The interval at which a waiting rank asks the device whether it has failed.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// A rank of a [`Group`] whose tensors NCCL moves.
///
/// The methods of [`Communicator`] take tensors of the host, which the rank copies to its device and back. Tensors that
/// are on the device stay there with [`launch_on_device`](OnDevice::launch_on_device): their result is available when
/// the operation is *enqueued*, and its event tells when the operation is done.
///
/// Messages ([`send`](Communicator::send)) go through host memory.
pub struct NcclRank {
    abort: AbortHandle,
    timeout: Option<Duration>,
    plans: Plans,
    /// Dropped before the operation, whose memory NCCL may use until its communicator is gone (NCCL-2).
    connection: Connection,
    operation: DeviceOperation,
}

impl std::fmt::Debug for NcclRank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DeviceOperation { rank, ranks, gpu, .. } = &self.operation;
        let state = self.in_flight();
        let state = state.map_or_else(|| "idle".to_owned(), |operation| operation.to_string());
        write!(f, "rank {rank} of {ranks} on {gpu:?}, {state}")
    }
}

impl NcclRank {
    /// Takes a rank of a group for a device. Begins to connect, and returns before the other ranks have come.
    ///
    /// # Errors
    /// The errors of [`Group::rank`]; [`CommError::Backend`] if no thread can be started.
    pub fn new(group: &Group, rank: usize, gpu: &Gpu) -> Result<Self, CommError> {
        let host = group.participant(rank)?;
        Ok(NcclRank {
            abort: host.abort_handle(),
            timeout: host.group.timeout,
            plans: Plans::default(),
            operation: DeviceOperation::new(&host, gpu),
            connection: Connection::Connecting(Connecting::begin(host, gpu.clone())?),
        })
    }

    /// Returns the device of the rank.
    pub fn gpu(&self) -> &Gpu {
        &self.operation.gpu
    }

    /// Waits for the result that [`poll_on_device`](OnDevice::poll_on_device) returns, for at most `timeout`; with
    /// `None`, for at most the group's time limit.
    ///
    /// # Errors
    /// The errors of [`wait`](Communicator::wait).
    pub fn wait_on_device(&mut self, timeout: Option<Duration>) -> Result<Vec<DeviceTensor>, CommError> {
        self.until(timeout).and_then(on_device)
    }

    /// Returns the operation in flight, even if it has not begun.
    fn in_flight(&self) -> Option<Collective> {
        self.operation.phase.operation()
    }

    fn begin(&mut self, plan: PlanId, contributed: Contributed) -> Result<(), CommError> {
        let operation = self.plans.operation(plan)?;
        if let Some(operation) = self.in_flight() {
            return Err(CommError::Busy { operation });
        }
        let linked = self.connection.poll()?;
        self.operation.phase = Phase::Launched {
            operation,
            contributed,
        };
        linked.map_or(Ok(()), |(host, _)| self.operation.arrive(host))
    }

    /// Advances the operation in flight as far as possible without waiting.
    fn drive(&mut self) -> Result<Option<Outcome>, CommError> {
        if self.in_flight().is_none() {
            return Err(CommError::Idle);
        }
        match self.connection.poll() {
            Ok(None) => Ok(None),
            Ok(Some((host, link))) => self.operation.drive(host, link),
            Err(error) => {
                self.operation.phase = Phase::Idle;
                Err(error)
            }
        }
    }

    /// Drives the operation until there is an outcome.
    fn until(&mut self, timeout: Option<Duration>) -> Result<Outcome, CommError> {
        let Some(operation) = self.in_flight() else {
            return Err(CommError::Idle);
        };
        let started = Instant::now();
        let deadline = self.deadline(started, timeout);
        let late = |missing| CommError::Timeout {
            operation,
            waited: started.elapsed(),
            missing,
        };
        let work = &mut self.operation;
        let linked = self.connection.wait(&work.bell, deadline);
        let linked = linked.inspect_err(|_| work.phase = Phase::Idle)?;
        let Some((host, link)) = linked else {
            return Err(late("ranks to connect with".to_owned()));
        };
        loop {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            // A device that fails rings no bell, so it is asked at intervals.
            let part = left.min(ASKED_EVERY);
            match Participant::until(host, Some(part), |host| work.drive(host, link))? {
                Ok(outcome) => return Ok(outcome),
                Err(_) if part == left => return Err(late(work.describe_missing(host, link))),
                Err(_) => {}
            }
        }
    }

    /// Returns the end of a wait that began at `started`; `None` if the wait has no time limit.
    fn deadline(&self, started: Instant, timeout: Option<Duration>) -> Option<Instant> {
        started.checked_add(timeout.or(self.timeout)?)
    }

    /// Returns the rank on the host, once it is connected, for a message from or to rank `other`, and the time that is
    /// left.
    fn host(
        &mut self,
        other: usize,
        timeout: Option<Duration>,
    ) -> Result<(&mut Participant, Option<Duration>), CommError> {
        let started = Instant::now();
        let deadline = self.deadline(started, timeout);
        let linked = self.connection.wait(&self.operation.bell, deadline)?;
        let (host, _) = linked.ok_or_else(|| CommError::NoMessage {
            rank: other,
            waited: started.elapsed(),
            what: "connected, or one of the others has not,",
        })?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Ok((host, left))
    }

    /// Enqueues copies of host tensors to the device.
    fn upload(&self, parts: &[Part<'_>]) -> Result<Vec<DeviceTensor>, CommError> {
        let gpu = self.gpu();
        let stream = Stream::communication(gpu)?;
        let upload = |part: &Part<'_>| {
            part.check()?;
            let layout = TensorLayout::new(part.dtype, part.shape)?;
            let mut memory = DeviceMemory::new(gpu, layout.len_bytes())?;
            stream.upload(memory.span_mut(0, layout.len_bytes())?, part.bytes)?;
            Ok(DeviceTensor::written(memory, layout, &stream)?)
        };
        parts.iter().map(upload).collect()
    }
}

/// Returns the tensors of an outcome on the device; none if no tensors were moved.
fn on_device(outcome: Outcome) -> Result<Vec<DeviceTensor>, CommError> {
    match outcome {
        Outcome::Device(tensors) => Ok(tensors),
        Outcome::Host(tensors) if tensors.is_empty() => Ok(Vec::new()),
        Outcome::Host(_) => Err(CommError::Idle),
    }
}

/// Returns the tensors of an outcome on the host.
fn on_host(outcome: Outcome) -> Result<Vec<Tensor>, CommError> {
    match outcome {
        Outcome::Host(tensors) => Ok(tensors),
        Outcome::Device(_) => Err(CommError::Idle),
    }
}

impl OnDevice for NcclRank {
    fn launch_on_device(&mut self, plan: PlanId, tensors: &[DeviceTensor]) -> Result<(), CommError> {
        let own = self.gpu().id();
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.gpu().id() != own) {
            return Err(CommError::Device(DeviceError::WrongDevice {
                what: "a tensor of this rank",
                expected: own,
                found: tensor.gpu().id(),
            }));
        }
        let tensors = tensors.to_vec();
        let wanted = Destination::Device;
        self.begin(plan, Contributed::Tensors { tensors, wanted })
    }

    fn poll_on_device(&mut self) -> Result<Option<Vec<DeviceTensor>>, CommError> {
        self.drive()?.map(on_device).transpose()
    }
}

impl Communicator for NcclRank {
    fn rank(&self) -> usize {
        self.operation.rank
    }

    fn world_size(&self) -> usize {
        self.operation.ranks
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        self.plans.plan(operation, self.operation.ranks)
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        let operation = self.plans.operation(plan)?;
        let contributed = match contribution {
            Contribution::Failure(report) => Contributed::Failure(report.to_vec()),
            Contribution::Parts(parts) => {
                let parts = if operation.reads(self.rank()) { parts } else { &[] };
                Contributed::Tensors {
                    tensors: self.upload(parts)?,
                    wanted: Destination::Host,
                }
            }
        };
        self.begin(plan, contributed)
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        self.drive()?.map(on_host).transpose()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.until(timeout).and_then(on_host)
    }

    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        let (host, left) = self.host(to, timeout)?;
        host.send(to, tensors, left)
    }

    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let (host, left) = self.host(from, timeout)?;
        host.recv(from, left)
    }

    fn on_device(&mut self) -> Option<&mut dyn OnDevice> {
        Some(self)
    }

    fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let started = Instant::now();
        let left = || timeout.saturating_sub(started.elapsed());
        let outcome = match self.in_flight() {
            Some(_) => self.until(Some(timeout)).map(drop),
            None => {
                let linked = self
                    .connection
                    .wait(&self.operation.bell, started.checked_add(timeout));
                linked.and_then(|linked| linked.map(drop).ok_or_else(|| not_connected(started)))
            }
        };
        let Some((mut host, link)) = self.connection.close() else {
            return outcome;
        };
        let limit = left();
        // All ranks finalize together. If this fails, the drop of the link aborts the communicator.
        let parted = outcome.and_then(|()| {
            let together = link.comm.finalize().is_ok() && settle(&mut host, &link.comm, &|| limit).is_ok();
            if together { link.comm.destroy() } else { Ok(()) }
        });
        host.linger(Some(left()));
        parted
    }
}

fn not_connected(since: Instant) -> CommError {
    CommError::Backend {
        backend: NAME,
        reason: format!("its ranks have not connected for {:?}", since.elapsed()),
    }
}

impl Drop for NcclRank {
    fn drop(&mut self) {
        // Other ranks wait for the operation that this rank will not do any more. NCCL's work ends with its
        // communicator.
        if self.in_flight().is_some() {
            self.abort.abort();
        }
    }
}
