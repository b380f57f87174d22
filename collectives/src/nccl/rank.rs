//! One rank over NCCL: agrees on an operation on the host, then has NCCL do it on the device.

use std::time::Duration;

use selvedge_channels::device::{DeviceError, DeviceMemory, DeviceTensor, Gpu, Stream, TensorLayout};
use selvedge_channels::{Doorbell, Tensor, Waiting};

use super::NAME;
use super::backend::capabilities;
use super::comm::CommState;
use super::connect::{Connecting, Link, Linked, settle};
use super::phase::{Contributed, Home, Outcome, Phase};
use super::transfer::{Place, Transfer};
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, OnDevice, PlanId};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Part;
use crate::shm::{Group, Rank};

/// The time limit for the copy of a finished result from the device to the host.
const DOWNLOAD: Duration = Duration::from_secs(60);

/// The interval at which a waiting rank asks the device whether it has failed.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The number of polls of NCCL before the host goes on with other work, if NCCL is slow to enqueue.
const LOOKS: usize = 1000;

/// A rank of a [`Group`] whose tensors NCCL moves.
///
/// The methods of [`Communicator`] take tensors of the host, which the rank copies to its device and back. Tensors that
/// are on the device stay there with [`launch_on_device`](OnDevice::launch_on_device): their result is available when
/// the operation is *enqueued*, and its event tells when the operation is done.
///
/// Messages ([`send`](Communicator::send)) go through host memory.
pub struct NcclRank {
    rank: usize,
    ranks: usize,
    gpu: Gpu,
    bell: Doorbell,
    abort: AbortHandle,
    plans: Vec<Collective>,
    /// `None` while the rank connects, and while a method uses the link.
    linked: Option<Linked>,
    connecting: Option<Connecting>,
    /// The operation that was launched before the rank was connected.
    pending: Option<(PlanId, Contributed)>,
    phase: Phase,
    /// Failed operations that NCCL may still be about to enqueue (NCCL-2). Dropped after the communicator.
    abandoned: Vec<Phase>,
    /// The reason why the rank did not connect.
    failed: Option<CommError>,
    timeout: Option<Duration>,
}

impl std::fmt::Debug for NcclRank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.phase.operation();
        let state = state.map_or_else(|| "idle".to_owned(), |operation| operation.to_string());
        write!(
            f,
            "rank {} of {} on {:?}, {state}",
            self.rank, self.ranks, self.gpu
        )
    }
}

impl NcclRank {
    /// Takes a rank of a group for a device. Begins to connect, and returns before the other ranks have come.
    ///
    /// # Errors
    /// The errors of [`Group::rank`]; [`CommError::Backend`] if no thread can be started.
    pub fn new(group: &Group, rank: usize, gpu: &Gpu) -> Result<Self, CommError> {
        let host = group.rank(rank)?;
        let (bell, abort, timeout) = (host.bell()?, host.abort_handle(), host.timeout());
        Ok(NcclRank {
            rank,
            ranks: host.world_size(),
            gpu: gpu.clone(),
            bell: bell.clone(),
            abort,
            plans: Vec::new(),
            linked: None,
            connecting: Some(Connecting::begin(host, gpu.clone(), bell)?),
            pending: None,
            phase: Phase::Idle,
            abandoned: Vec::new(),
            failed: None,
            timeout,
        })
    }

    /// Returns the device of the rank.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Waits for the result that [`poll_on_device`](OnDevice::poll_on_device) returns, for at most `timeout`; with
    /// `None`, for at most the group's time limit.
    ///
    /// # Errors
    /// The errors of [`wait`](Communicator::wait).
    pub fn wait_on_device(&mut self, timeout: Option<Duration>) -> Result<Vec<DeviceTensor>, CommError> {
        self.until(timeout).and_then(on_device)
    }

    fn operation(&self, plan: PlanId) -> Result<Collective, CommError> {
        self.plans.get(plan.0).copied().ok_or(CommError::NoSuchPlan)
    }

    /// Returns the operation in flight, even if it has not begun.
    fn under_way(&self) -> Option<Collective> {
        let pending = self.pending.as_ref();
        let pending = pending.and_then(|(plan, _)| self.operation(*plan).ok());
        self.phase.operation().or(pending)
    }

    fn begin(&mut self, plan: PlanId, brought: Contributed) -> Result<(), CommError> {
        let operation = self.operation(plan)?;
        if let Some(operation) = self.under_way() {
            return Err(CommError::Busy { operation });
        }
        self.link();
        match self.linked.take() {
            Some((mut host, link)) => {
                let launched = self.launch_linked(&mut host, operation, brought);
                self.linked = Some((host, link));
                launched
            }
            None if self.connecting.is_some() => {
                self.pending = Some((plan, brought));
                Ok(())
            }
            None => Err(self.lost()),
        }
    }

    /// Returns the reason why the rank has no link; a new error for each call.
    fn lost(&self) -> CommError {
        match self.failed {
            Some(CommError::PeerLost { rank, pid }) => CommError::PeerLost { rank, pid },
            Some(CommError::PeerLeft { rank }) => CommError::PeerLeft { rank },
            Some(CommError::Aborted { rank }) => CommError::Aborted { rank },
            ref other => CommError::Backend {
                backend: NAME,
                reason: other
                    .as_ref()
                    .map_or_else(|| "the rank has come to its end".to_owned(), ToString::to_string),
            },
        }
    }

    /// Takes over the outcome of the connection, if there is one. Returns the error if the connection failed.
    fn link(&mut self) -> Option<CommError> {
        match self.connecting.as_ref()?.outcome()? {
            Ok(linked) => {
                self.linked = Some(linked);
                self.connecting = None;
                None
            }
            Err(error) => {
                self.failed = Some(error);
                self.connecting = None;
                Some(self.lost())
            }
        }
    }

    fn launch_linked(
        &mut self,
        host: &mut Rank,
        operation: Collective,
        brought: Contributed,
    ) -> Result<(), CommError> {
        let plan = host.plan(operation)?;
        let (tensors, home) = match brought {
            Contributed::Failure(report) => {
                host.launch(plan, Contribution::Failure(&report))?;
                (Vec::new(), Home::Host)
            }
            Contributed::Tensors { tensors, home } => {
                let parts = tensors
                    .iter()
                    .map(|tensor| (tensor.layout().dtype(), tensor.layout().shape()));
                host.launch_elsewhere(plan, parts)?;
                (tensors, home)
            }
        };
        self.phase = Phase::Agreeing {
            operation,
            tensors,
            home,
        };
        Ok(())
    }

    /// Advances the operation in flight as far as possible without waiting.
    fn drive(&mut self) -> Result<Option<Outcome>, CommError> {
        if let Some(error) = self.link() {
            self.pending = None;
            return Err(error);
        }
        let Some((mut host, link)) = self.linked.take() else {
            return match self.pending {
                Some(_) if self.connecting.is_some() => Ok(None),
                Some(_) => Err(self.lost()),
                None => Err(CommError::Idle),
            };
        };
        let outcome = self.drive_linked(&mut host, &link);
        self.linked = Some((host, link));
        outcome
    }

    fn drive_linked(&mut self, host: &mut Rank, link: &Link) -> Result<Option<Outcome>, CommError> {
        if let Some((plan, brought)) = self.pending.take() {
            let operation = self.operation(plan)?;
            self.launch_linked(host, operation, brought)?;
        }
        let outcome = self.advance(host, link);
        if outcome.is_err() {
            let failed = std::mem::replace(&mut self.phase, Phase::Idle);
            if let Phase::Issuing { .. } = failed {
                self.abandoned.push(failed);
            }
        }
        outcome
    }

    fn advance(&mut self, host: &mut Rank, link: &Link) -> Result<Option<Outcome>, CommError> {
        if let Phase::Agreeing { .. } = self.phase {
            if host.poll()?.is_none() {
                return Ok(None);
            }
            self.issue(host, link)?;
        }
        if let Phase::Issuing { .. } = self.phase {
            match enqueued(host, link)? {
                CommState::Ready => {}
                // The end of that rank will be reported; until then, this rank waits for it.
                CommState::Unreachable => return Ok(None),
                CommState::InProgress => {
                    // NCCL does not signal that it is done, so it is polled again at once, after the other work of this
                    // thread.
                    self.bell.ring();
                    return Ok(None);
                }
            }
            if let Some(outcome) = self.issued(link)? {
                return Ok(Some(outcome));
            }
        }
        self.finish(host, link)
    }

    /// Has NCCL do the operation on which the ranks agree.
    fn issue(&mut self, host: &mut Rank, link: &Link) -> Result<(), CommError> {
        let Phase::Agreeing {
            operation,
            tensors,
            home,
        } = std::mem::replace(&mut self.phase, Phase::Idle)
        else {
            return Err(CommError::Idle);
        };
        let agreed = host.agreed().filter(|_| operation != Collective::Barrier);
        let Some(agreed) = agreed.cloned() else {
            self.phase = Phase::Working {
                operation,
                results: Vec::new(),
                done: None,
            };
            return Ok(());
        };
        let transfer = Transfer {
            operation,
            heads: &agreed.heads,
            rank: self.rank,
            ranks: self.ranks,
        };
        transfer.check()?;
        let Link { comm, stream } = link;
        let mut places = Vec::new();
        let issued = (|| {
            places = transfer.places(&self.gpu)?;
            tensors
                .iter()
                .try_for_each(|tensor| stream.order_after(tensor.ready()))?;
            comm.group(stream, |launch| transfer.issue(launch, &tensors, &mut places))
        })();
        // Set also if NCCL has refused a part of the operation: it may enqueue the rest.
        self.phase = Phase::Issuing {
            operation,
            places,
            home,
            _tensors: tensors,
        };
        // The other ranks have begun, and wait for this rank.
        issued.inspect_err(|_| host.give_up())
    }

    /// Returns the enqueued results if they are wanted on the device; `None` if the host has to wait for the device.
    fn issued(&mut self, link: &Link) -> Result<Option<Outcome>, CommError> {
        let Phase::Issuing {
            operation,
            places,
            home,
            ..
        } = std::mem::replace(&mut self.phase, Phase::Idle)
        else {
            return Err(CommError::Idle);
        };
        let written = |place: Place| DeviceTensor::written(place.memory, place.layout, &link.stream);
        let results = places.into_iter().map(written).collect::<Result<Vec<_>, _>>()?;
        if home == Home::Device {
            return Ok(Some(Outcome::Device(results)));
        }
        // The mark comes before the bell, which the stream itself rings.
        let done = Some(link.stream.mark()?);
        link.stream.ring(&self.bell)?;
        self.phase = Phase::Working {
            operation,
            results,
            done,
        };
        Ok(None)
    }

    /// Returns the results on the host, once the device has completed them.
    fn finish(&mut self, host: &Rank, link: &Link) -> Result<Option<Outcome>, CommError> {
        let Phase::Working { results, done, .. } = &self.phase else {
            return Err(CommError::Idle);
        };
        if let Some(done) = done
            && !done.is_done()?
        {
            watched(host, link)?;
            return Ok(None);
        }
        let download = |tensor: &DeviceTensor| tensor.download(&link.stream, DOWNLOAD);
        let tensors = results.iter().map(download).collect::<Result<Vec<_>, _>>()?;
        self.phase = Phase::Idle;
        Ok(Some(Outcome::Host(tensors)))
    }

    /// Drives the operation until there is an outcome.
    fn until(&mut self, timeout: Option<Duration>) -> Result<Outcome, CommError> {
        let Some(operation) = self.under_way() else {
            return Err(CommError::Idle);
        };
        let timeout = timeout.or(self.timeout);
        let started = std::time::Instant::now();
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let mut outcome = Ok(None);
        while self.connecting.is_some() && matches!(outcome, Ok(None)) {
            // The thread that connects watches the other ranks.
            let bell = self.bell.clone();
            let woken = bell.wait(&Waiting::Park, deadline, || {
                outcome = self.drive();
                !matches!(outcome, Ok(None)) || self.connecting.is_none()
            });
            if !woken {
                let (waited, missing) = (started.elapsed(), "ranks to connect with".to_owned());
                return Err(CommError::Timeout {
                    operation,
                    waited,
                    missing,
                });
            }
        }
        if let Some(outcome) = outcome? {
            return Ok(outcome);
        }
        let Some((mut host, link)) = self.linked.take() else {
            return Err(self.lost());
        };
        let found = loop {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(std::time::Instant::now())
            });
            // A device that fails rings no bell, so it is asked at intervals.
            let part = left.min(ASKED_EVERY);
            let found = host.until(Some(part), |host| self.drive_linked(host, &link));
            if !matches!(found, Ok(Err(_))) || part == left {
                break found;
            }
        };
        let missing = match self.phase {
            _ if matches!(link.comm.state(), Ok(CommState::Unreachable)) => {
                "a rank that NCCL cannot reach (NCCL_DEBUG=WARN tells more)".to_owned()
            }
            Phase::Issuing { .. } => "NCCL, which has not enqueued it".to_owned(),
            Phase::Working { .. } => "the device, which is not done".to_owned(),
            _ => host.describe_missing(),
        };
        self.linked = Some((host, link));
        found?.map_err(|_| CommError::Timeout {
            operation,
            waited: started.elapsed(),
            missing,
        })
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

impl OnDevice for NcclRank {
    fn launch_on_device(&mut self, plan: PlanId, tensors: &[DeviceTensor]) -> Result<(), CommError> {
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.gpu().id() != self.gpu.id()) {
            return Err(CommError::Device(DeviceError::WrongDevice {
                what: "a tensor of this rank",
                expected: self.gpu.id(),
                found: tensor.gpu().id(),
            }));
        }
        let tensors = tensors.to_vec();
        let home = Home::Device;
        self.begin(plan, Contributed::Tensors { tensors, home })
    }

    fn poll_on_device(&mut self) -> Result<Option<Vec<DeviceTensor>>, CommError> {
        self.drive()?.map(on_device).transpose()
    }
}

/// Polls NCCL until it has enqueued the operation, which takes a moment. Gives up after a number of polls.
fn enqueued(host: &Rank, link: &Link) -> Result<CommState, CommError> {
    for _ in 0..LOOKS {
        match watched(host, link)? {
            CommState::InProgress => std::thread::yield_now(),
            state => return Ok(state),
        }
    }
    Ok(CommState::InProgress)
}

/// Returns the state of NCCL. If a rank is gone, returns that as the error, because it is the cause of any state of
/// NCCL.
fn watched(host: &Rank, link: &Link) -> Result<CommState, CommError> {
    let state = link.comm.state();
    if let Some(gone) = host.end() {
        return Err(gone);
    }
    match state {
        Ok(CommState::Unreachable) => host.find_gone().map_or(Ok(CommState::Unreachable), Err),
        Ok(state) => Ok(state),
        Err(error) => Err(host.find_gone().unwrap_or_else(|| {
            host.give_up();
            error
        })),
    }
}

impl Communicator for NcclRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.ranks
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        if let Some(rank) = operation.root().filter(|root| *root >= self.ranks) {
            let ranks = self.ranks;
            return Err(CommError::NoSuchRank { rank, ranks });
        }
        let known = self.plans.iter().position(|plan| *plan == operation);
        Ok(PlanId(known.unwrap_or_else(|| {
            self.plans.push(operation);
            self.plans.len() - 1
        })))
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        let operation = self.operation(plan)?;
        let brought = match contribution {
            Contribution::Failure(report) => Contributed::Failure(report.to_vec()),
            Contribution::Parts(parts) => {
                let read = operation.reads_all() || operation.root() == Some(self.rank);
                let parts = if read { parts } else { &[] };
                Contributed::Tensors {
                    tensors: self.upload(parts)?,
                    home: Home::Host,
                }
            }
        };
        self.begin(plan, brought)
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        Ok(match self.drive()? {
            None => None,
            Some(Outcome::Host(tensors)) => Some(tensors),
            Some(Outcome::Device(_)) => return Err(CommError::Idle),
        })
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        match self.until(timeout)? {
            Outcome::Host(tensors) => Ok(tensors),
            Outcome::Device(_) => Err(CommError::Idle),
        }
    }

    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        let (host, left) = self.messenger(to, timeout)?;
        host.send(to, tensors, left)
    }

    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let (host, left) = self.messenger(from, timeout)?;
        host.recv(from, left)
    }

    fn on_device(&mut self) -> Option<&mut dyn OnDevice> {
        Some(self)
    }

    fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let started = std::time::Instant::now();
        let left = || timeout.saturating_sub(started.elapsed());
        let outcome = match self.under_way() {
            Some(_) => self.until(Some(timeout)).map(drop),
            None => {
                let late = |waited| CommError::Backend {
                    backend: NAME,
                    reason: format!("its ranks have not connected for {waited:?}"),
                };
                self.connected(Some(timeout), late).map(drop)
            }
        };
        let Some((mut host, link)) = self.linked.take() else {
            return outcome;
        };
        let patience = left();
        // All ranks finalize together. If this fails, the drop of the link aborts the communicator.
        let parted = outcome.and_then(|()| {
            let together =
                link.comm.finalize().is_ok() && settle(&mut host, &link.comm, &|| patience).is_ok();
            if together { link.comm.destroy() } else { Ok(()) }
        });
        parted.and(Box::new(host).close(left()))
    }
}

impl NcclRank {
    /// Returns the rank on the host, once it is connected, for a message from or to rank `other`, and the time that is
    /// left.
    fn messenger(
        &mut self,
        other: usize,
        timeout: Option<Duration>,
    ) -> Result<(&mut Rank, Option<Duration>), CommError> {
        let started = std::time::Instant::now();
        let timeout = timeout.or(self.timeout);
        let late = |waited| CommError::NoMessage {
            rank: other,
            waited,
            what: "connected, or one of the others has not,",
        };
        let host = self.connected(timeout, late)?;
        Ok((
            host,
            timeout.map(|timeout| timeout.saturating_sub(started.elapsed())),
        ))
    }

    /// Returns the rank on the host, once it is connected.
    fn connected(
        &mut self,
        timeout: Option<Duration>,
        late: impl FnOnce(Duration) -> CommError,
    ) -> Result<&mut Rank, CommError> {
        let started = std::time::Instant::now();
        let timeout = timeout.or(self.timeout);
        let deadline = timeout.and_then(|timeout| started.checked_add(timeout));
        let (bell, mut failed) = (self.bell.clone(), None);
        let connected = bell.wait(&Waiting::Park, deadline, || {
            failed = self.link();
            self.connecting.is_none()
        });
        match failed {
            Some(error) => Err(error),
            None if !connected => Err(late(started.elapsed())),
            None => {
                let lost = self.lost();
                self.linked.as_mut().map(|(host, _)| host).ok_or(lost)
            }
        }
    }

    /// Enqueues copies of host tensors to the device.
    fn upload(&self, parts: &[Part<'_>]) -> Result<Vec<DeviceTensor>, CommError> {
        let stream = Stream::communication(&self.gpu)?;
        let upload = |part: &Part<'_>| {
            part.check()?;
            let layout = TensorLayout::new(part.dtype, part.shape)?;
            let mut memory = DeviceMemory::new(&self.gpu, layout.len_bytes())?;
            stream.upload(memory.span_mut(0, layout.len_bytes())?, part.bytes)?;
            Ok(DeviceTensor::written(memory, layout, &stream)?)
        };
        parts.iter().map(upload).collect()
    }
}

impl Drop for NcclRank {
    fn drop(&mut self) {
        // Other ranks wait for the operation that this rank will not do any more. NCCL's work ends with its
        // communicator.
        if self.under_way().is_some() {
            self.abort.abort();
        }
    }
}
