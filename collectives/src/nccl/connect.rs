//! How the ranks of a group find each other: the first makes a name, all learn it from the host's group, and NCCL connects
//! those who say it.
//!
//! It takes a thread of its own for as long as it lasts, since it is begun by whoever loads a graph, one rank after the other.
//! NCCL can only be *asked* whether it has connected, and the rank's doorbell wakes its driver, not this thread: this is the one
//! place that asks in a loop, once in the life of a group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_channels::device::{DeviceMemory, Gpu, Stream};
use selvedge_channels::{DType, Doorbell, Tensor};

use super::comm::{Comm, ID_BYTES, State, unique_id};
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Part;
use crate::shm::Rank;

/// Between two questions.
const PAUSE: Duration = Duration::from_micros(200);

/// Longest time to connect.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a rank has of NCCL, and the stream on which it launches.
pub(super) struct Link {
    pub(super) comm: Comm,
    pub(super) stream: Stream,
}

/// A rank on the host, and its link to the others' devices.
pub(super) type Linked = (Rank, Link);

/// Longest time to connect for whom nobody waits any more.
const PARTING: Duration = Duration::from_secs(1);

/// A rank that connects. Dropping it has it leave, soon.
pub(super) struct Connecting {
    shared: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    outcome: Mutex<Option<Result<Linked, CommError>>>,
    /// Nobody waits for the outcome any more.
    unwanted: AtomicBool,
}

impl Drop for Connecting {
    fn drop(&mut self) {
        // Relaxed: it publishes nothing.
        self.shared.unwanted.store(true, Ordering::Relaxed);
    }
}

impl Connecting {
    /// Begins; `bell` is rung when there is an outcome.
    pub(super) fn begin(host: Rank, gpu: Gpu, bell: Doorbell) -> Result<Self, CommError> {
        let progress = Arc::<Progress>::default();
        let connecting = Connecting {
            shared: Arc::clone(&progress),
        };
        let name = format!("nccl {}", host.rank());
        let connect = move || {
            let linked = connect(host, &gpu, &progress.unwanted);
            *progress.outcome.lock() = Some(linked);
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

    /// The outcome, once, when there is one.
    pub(super) fn outcome(&self) -> Option<Result<Linked, CommError>> {
        self.shared.outcome.lock().take()
    }
}

fn connect(mut host: Rank, gpu: &Gpu, unwanted: &AtomicBool) -> Result<Linked, CommError> {
    let linked = begin(&mut host, gpu, unwanted);
    match linked {
        Ok(link) => Ok((host, link)),
        Err(error) => {
            // Whoever is alive learns from the group that nothing comes of it.
            let gone = host.find_gone();
            // Who has only left says so by leaving.
            if gone.is_none() && !unwanted.load(Ordering::Relaxed) {
                host.give_up();
            }
            Err(gone.unwrap_or(error))
        }
    }
}

fn begin(host: &mut Rank, gpu: &Gpu, unwanted: &AtomicBool) -> Result<Link, CommError> {
    let patience = || {
        if unwanted.load(Ordering::Relaxed) {
            PARTING
        } else {
            PATIENCE
        }
    };
    let id = agree_on_id(host, &patience)?;
    let stream = Stream::communication(gpu)?;
    // Before the communicator, and so dropped after it: where this fails, NCCL may be about to enqueue what it needs them for
    // (NCCL-2).
    let own = DeviceMemory::new(gpu, 1)?;
    let mut received = DeviceMemory::new(gpu, host.world_size())?;
    let comm = Comm::begin(gpu, id, host.world_size(), host.rank())?;
    settle(host, &comm, &patience)?;
    warm_up(&comm, &stream, &own, &mut received)?;
    settle(host, &comm, &patience)?;
    // Everybody is connected to everybody, or nobody goes on.
    let barrier = host.plan(Collective::Barrier)?;
    host.launch(barrier, Contribution::Parts(&[]))?;
    ask(host, &patience, |host| host.poll())?;
    Ok(Link { comm, stream })
}

/// The name that rank 0 has made.
fn agree_on_id(host: &mut Rank, patience: &dyn Fn() -> Duration) -> Result<[u8; ID_BYTES], CommError> {
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
    let received = ask(host, patience, |host| host.poll());
    made?;
    let received = received?;
    let id = received.first().map(Tensor::bytes);
    let id = id.and_then(|bytes| <[u8; ID_BYTES]>::try_from(bytes).ok());
    id.ok_or(CommError::Corrupt {
        what: "a name of another length than NCCL's",
    })
}

/// Waits until what was called of NCCL is over, as long as `patience` says, with an eye on the other ranks.
pub(super) fn settle(host: &mut Rank, comm: &Comm, patience: &dyn Fn() -> Duration) -> Result<(), CommError> {
    ask(host, patience, |_| {
        Ok((comm.state()? == State::Ready).then_some(()))
    })
}

/// Asks until there is an answer, with an eye on the other ranks.
fn ask<R>(
    host: &mut Rank,
    patience: &dyn Fn() -> Duration,
    mut question: impl FnMut(&mut Rank) -> Result<Option<R>, CommError>,
) -> Result<R, CommError> {
    let started = Instant::now();
    loop {
        if let Some(answer) = question(host)? {
            return Ok(answer);
        }
        if let Some(gone) = host.find_gone() {
            return Err(gone);
        }
        let waited = started.elapsed();
        if waited > patience() {
            return Err(CommError::Backend {
                backend: super::NAME,
                reason: format!("the ranks have not answered in {waited:?}"),
            });
        }
        thread::sleep(PAUSE);
    }
}

/// Sends a byte from everybody to everybody: NCCL connects two ranks when they first have to do with each other, and would
/// keep the host waiting in the middle of the work.
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
