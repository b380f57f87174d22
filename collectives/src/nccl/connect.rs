//! Connection of the ranks of a group: rank 0 creates an id, all ranks receive it through the group on the host, and
//! NCCL connects the ranks with the same id.
//!
//! The connection takes a thread of its own while it lasts, because the thread that loads a graph begins the
//! connections of its ranks one after the other. NCCL can only be *polled* for the end of a connection, and the rank's
//! doorbell wakes its driver, not this thread. So this is the one place that polls in a loop, once in the life of a
//! group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_channels::device::{DeviceMemory, Gpu, Stream};
use selvedge_channels::{DType, Doorbell, Tensor, Waiting};

use super::NAME;
use super::comm::{Comm, CommState, ID_BYTES, unique_id};
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Part;
use crate::rendezvous::Participant;
use crate::shm::Rank;

/// The time between two polls.
const PAUSE: Duration = Duration::from_micros(200);

/// The time limit for the connection.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The communicator of a rank, and the stream on which it launches.
pub(super) struct Link {
    pub(super) comm: Comm,
    pub(super) stream: Stream,
}

impl Link {
    /// Whether NCCL cannot reach a rank.
    pub(super) fn is_unreachable(&self) -> bool {
        self.comm.is_unreachable()
    }
}

/// A rank on the host, and its link to the devices of the other ranks.
pub(super) type Linked = (Participant, Link);

/// The time limit for a connection whose outcome is not wanted any more.
const PARTING: Duration = Duration::from_secs(1);

/// The time limit for the report of a death that may be the cause of an error.
const REPORT: Duration = Duration::from_secs(10);

/// A rank that connects. Dropping it makes the rank leave soon.
pub(super) struct Connecting {
    state: Arc<ConnectState>,
}

#[derive(Default)]
struct ConnectState {
    outcome: Mutex<Option<Result<Linked, CommError>>>,
    /// True if the outcome is not wanted any more.
    unwanted: AtomicBool,
}

impl ConnectState {
    fn is_unwanted(&self) -> bool {
        // Relaxed: the flag publishes nothing else; a late look only prolongs the connection.
        self.unwanted.load(Ordering::Relaxed)
    }

    /// Returns the time limit for the connection, as it is now.
    fn time_limit(&self) -> Duration {
        if self.is_unwanted() { PARTING } else { TIME_LIMIT }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        // Relaxed: the flag publishes nothing else.
        self.state.unwanted.store(true, Ordering::Relaxed);
    }
}

impl Connecting {
    /// Begins to connect. The bell of the rank is rung when there is an outcome.
    pub(super) fn begin(host: Participant, gpu: Gpu) -> Result<Self, CommError> {
        let state = Arc::<ConnectState>::default();
        let connecting = Connecting {
            state: Arc::clone(&state),
        };
        let (name, bell) = (format!("nccl {}", host.rank), host.bell().clone());
        let connect = move || {
            let linked = connect(host, &gpu, &state);
            *state.outcome.lock() = Some(linked);
            bell.ring();
        };
        thread::Builder::new()
            .name(name)
            .spawn(connect)
            .map_err(|error| CommError::Backend {
                backend: super::NAME,
                reason: format!("no thread to connect on: {error}"),
            })?;
        Ok(connecting)
    }

    /// Returns the outcome, once, when there is one.
    pub(super) fn outcome(&self) -> Option<Result<Linked, CommError>> {
        self.state.outcome.lock().take()
    }
}

/// A connection under way. Fields are dropped in this order: the memory is needed until the communicator is gone, because
/// NCCL may be about to enqueue work with it (NCCL-2).
struct Attempt {
    link: Link,
    own: DeviceMemory,
    received: DeviceMemory,
}

fn connect(host: Participant, gpu: &Gpu, state: &ConnectState) -> Result<Linked, CommError> {
    let time_limit = || state.time_limit();
    let mut rank = Rank::new(host);
    let begun = begin(&mut rank, gpu, &time_limit);
    let mut attempt = begun.map_err(|error| cause(&mut rank, None, error, state))?;
    // A failure is told before the drop of the attempt aborts the communicator, which other ranks see as an error.
    let completed = attempt.complete(&mut rank, &time_limit);
    completed.map_err(|error| cause(&mut rank, Some(&attempt.link), error, state))?;
    Ok((rank.into_participant(), attempt.link))
}

/// Returns the cause of a failure: the end of the group, above all by the death of a rank, or the error itself, which
/// then ends the group.
fn cause(host: &mut Rank, link: Option<&Link>, error: CommError, state: &ConnectState) -> CommError {
    // A rank that is about to die, or that NCCL cannot reach, is reported soon.
    let time_limit = || state.time_limit().min(REPORT);
    let _ = ask(host, &time_limit, |host| {
        let waits = link.is_some_and(Link::is_unreachable) || host.as_mut().find_dying().is_some();
        Ok((!waits).then_some(()))
    });
    let host = host.as_mut();
    host.find_gone().unwrap_or_else(|| {
        // If the outcome is not wanted, the rank only leaves, and its leaving tells the others.
        if !state.is_unwanted() {
            host.give_up();
        }
        error
    })
}

fn begin(host: &mut Rank, gpu: &Gpu, time_limit: &dyn Fn() -> Duration) -> Result<Attempt, CommError> {
    let id = agree_on_id(host, time_limit)?;
    let stream = Stream::communication(gpu)?;
    let own = DeviceMemory::new(gpu, 1)?;
    let received = DeviceMemory::new(gpu, host.world_size())?;
    let comm = Comm::begin(gpu, id, host.world_size(), host.rank())?;
    Ok(Attempt {
        link: Link { comm, stream },
        own,
        received,
    })
}

impl Attempt {
    fn complete(&mut self, host: &mut Rank, time_limit: &dyn Fn() -> Duration) -> Result<(), CommError> {
        let Link { comm, stream } = &self.link;
        settle(host, comm, time_limit)?;
        warm_up(comm, stream, &self.own, &mut self.received)?;
        settle(host, comm, time_limit)?;
        // Either all ranks are connected to all ranks, or no rank goes on.
        let barrier = host.plan(Collective::Barrier)?;
        host.launch(barrier, Contribution::Parts(&[]))?;
        ask(host, time_limit, Rank::poll).map(drop)
    }
}

/// Returns the id that rank 0 has created.
fn agree_on_id(host: &mut Rank, time_limit: &dyn Fn() -> Duration) -> Result<[u8; ID_BYTES], CommError> {
    let plan = host.plan(Collective::Broadcast { root: 0 })?;
    let made = if host.rank() == 0 {
        unique_id()
    } else {
        Ok([0; ID_BYTES])
    };
    match &made {
        Err(error) => host.launch(plan, Contribution::Failure(error.to_string().as_bytes()))?,
        Ok(id) => {
            let part = Part {
                dtype: DType::U8,
                shape: &[ID_BYTES],
                bytes: id,
            };
            host.launch(plan, Contribution::Parts(&[part]))?;
        }
    }
    let received = ask(host, time_limit, Rank::poll);
    made?;
    let received = received?;
    let id = received.first().map(Tensor::bytes);
    let id = id.and_then(|bytes| <[u8; ID_BYTES]>::try_from(bytes).ok());
    id.ok_or(CommError::Corrupt {
        what: "a name of another length than NCCL's",
    })
}

/// Waits until the pending calls of NCCL are over, for at most `time_limit`, and watches the other ranks.
pub(super) fn settle<D: AsMut<Participant>>(
    host: &mut D,
    comm: &Comm,
    time_limit: &dyn Fn() -> Duration,
) -> Result<(), CommError> {
    ask(host, time_limit, |_| {
        Ok((comm.state()? == CommState::Ready).then_some(()))
    })
}

/// Polls until there is an answer, and watches the other ranks.
fn ask<D: AsMut<Participant>, R>(
    host: &mut D,
    time_limit: &dyn Fn() -> Duration,
    mut question: impl FnMut(&mut D) -> Result<Option<R>, CommError>,
) -> Result<R, CommError> {
    let started = Instant::now();
    loop {
        if let Some(answer) = question(host)? {
            return Ok(answer);
        }
        if let Some(gone) = host.as_mut().find_gone() {
            return Err(gone);
        }
        let waited = started.elapsed();
        if waited > time_limit() {
            return Err(CommError::Backend {
                backend: super::NAME,
                reason: format!("the ranks have not answered in {waited:?}"),
            });
        }
        thread::sleep(PAUSE);
    }
}

/// Sends a byte from every rank to every rank. NCCL connects two ranks at their first transfer, which would otherwise
/// block the host in the middle of the work.
fn warm_up(
    comm: &Comm,
    stream: &Stream,
    own: &DeviceMemory,
    received: &mut DeviceMemory,
) -> Result<(), CommError> {
    comm.group(stream, |launch| {
        for peer in 0..received.len_bytes() {
            launch.send(own.span(0, 1)?, peer)?;
            launch.recv(&received.span_mut(peer, 1)?, peer)?;
        }
        Ok(())
    })
}

/// The connection of a rank.
pub(super) enum Connection {
    Connecting(Connecting),
    Linked(Box<Linked>),
    Failed(CommError),
    Closed,
}

impl Connection {
    /// Returns the link, or `None` while the rank connects. Never waits.
    pub(super) fn poll(&mut self) -> Result<Option<&mut Linked>, CommError> {
        if let Connection::Connecting(connecting) = self
            && let Some(outcome) = connecting.outcome()
        {
            *self = match outcome {
                Ok(linked) => Connection::Linked(Box::new(linked)),
                Err(error) => Connection::Failed(error),
            };
        }
        match self {
            Connection::Connecting(_) => Ok(None),
            Connection::Linked(linked) => Ok(Some(linked)),
            Connection::Failed(error) => Err(copy(error)),
            Connection::Closed => Err(lost("the rank has come to its end".to_owned())),
        }
    }

    /// Waits for the link. Returns `None` if the deadline passes.
    pub(super) fn wait(
        &mut self,
        bell: &Doorbell,
        deadline: Option<Instant>,
    ) -> Result<Option<&mut Linked>, CommError> {
        // The thread that connects watches the other ranks.
        bell.wait(&Waiting::Park, deadline, || !matches!(self.poll(), Ok(None)));
        self.poll()
    }

    /// Returns the link if there is one, and closes the connection.
    pub(super) fn close(&mut self) -> Option<Linked> {
        match std::mem::replace(self, Connection::Closed) {
            Connection::Linked(linked) => Some(*linked),
            _ => None,
        }
    }
}

fn lost(reason: String) -> CommError {
    CommError::Backend {
        backend: NAME,
        reason,
    }
}

/// Returns the reason why a connection failed once more.
fn copy(error: &CommError) -> CommError {
    match *error {
        CommError::PeerLost { rank, pid } => CommError::PeerLost { rank, pid },
        CommError::PeerLeft { rank } => CommError::PeerLeft { rank },
        CommError::Aborted { rank } => CommError::Aborted { rank },
        ref other => lost(other.to_string()),
    }
}
