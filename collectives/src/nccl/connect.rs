//! How the ranks of a group find each other: the first makes a name, all learn it from the host's group, and NCCL connects
//! those who say it.
//!
//! It takes a thread of its own for as long as it lasts, since it is begun by whoever loads a graph, one rank after the other.
//! NCCL can only be *asked* whether it has connected, and the rank's doorbell wakes its driver, not this thread: this is the one
//! place that asks in a loop, once in the life of a group.

use std::sync::Arc;
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

/// A rank that connects.
#[derive(Clone)]
pub(super) struct Connecting {
    outcome: Arc<Mutex<Option<Result<Linked, CommError>>>>,
}

impl Connecting {
    /// Begins; `bell` is rung when there is an outcome.
    pub(super) fn begin(host: Rank, gpu: Gpu, bell: Doorbell) -> Result<Self, CommError> {
        let outcome = Arc::default();
        let connecting = Connecting {
            outcome: Arc::clone(&outcome),
        };
        let name = format!("nccl {}", host.rank());
        let connect = move || {
            let linked = connect(host, &gpu);
            *outcome.lock() = Some(linked);
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
        self.outcome.lock().take()
    }
}

fn connect(mut host: Rank, gpu: &Gpu) -> Result<Linked, CommError> {
    let linked = begin(&mut host, gpu);
    match linked {
        Ok(link) => Ok((host, link)),
        Err(error) => {
            // Whoever is alive learns from the group that nothing comes of it.
            let gone = host.find_gone();
            if gone.is_none() {
                host.give_up();
            }
            Err(gone.unwrap_or(error))
        }
    }
}

fn begin(host: &mut Rank, gpu: &Gpu) -> Result<Link, CommError> {
    let id = agree_on_id(host)?;
    let stream = Stream::communication(gpu)?;
    let comm = Comm::begin(gpu, id, host.world_size(), host.rank())?;
    settle(host, &comm)?;
    warm_up(host, &comm, gpu, &stream)?;
    // Everybody is connected to everybody, or nobody goes on.
    let barrier = host.plan(Collective::Barrier)?;
    host.launch(barrier, Contribution::Parts(&[]))?;
    ask(host, |host| host.poll())?;
    Ok(Link { comm, stream })
}

/// The name that rank 0 has made.
fn agree_on_id(host: &mut Rank) -> Result<[u8; ID_BYTES], CommError> {
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
    let received = ask(host, |host| host.poll());
    made?;
    let received = received?;
    let id = received.first().map(Tensor::bytes);
    let id = id.and_then(|bytes| <[u8; ID_BYTES]>::try_from(bytes).ok());
    id.ok_or(CommError::Corrupt {
        what: "a name of another length than NCCL's",
    })
}

/// Waits until what was called of NCCL is over, with an eye on the other ranks.
pub(super) fn settle(host: &mut Rank, comm: &Comm) -> Result<(), CommError> {
    ask(host, |_| Ok((comm.state()? == State::Ready).then_some(())))
}

/// Asks until there is an answer, with an eye on the other ranks.
fn ask<R>(
    host: &mut Rank,
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
        if started.elapsed() > PATIENCE {
            return Err(CommError::Backend {
                backend: super::NAME,
                reason: format!("the ranks have not connected in {PATIENCE:?}"),
            });
        }
        thread::sleep(PAUSE);
    }
}

/// Sends a byte from everybody to everybody: NCCL connects two ranks when they first have to do with each other, and would
/// keep the host waiting in the middle of the work.
fn warm_up(host: &mut Rank, comm: &Comm, gpu: &Gpu, stream: &Stream) -> Result<(), CommError> {
    let ranks = host.world_size();
    let own = DeviceMemory::new(gpu, 1)?;
    let mut received = DeviceMemory::new(gpu, ranks)?;
    comm.group(stream, |launch| {
        for peer in 0..ranks {
            launch.send(own.span(0, 1)?, peer)?;
            launch.recv(&received.span_mut(peer, 1)?, peer)?;
        }
        Ok(())
    })?;
    settle(host, comm)
}
