//! Progress of one operation: the ranks agree on it on the host, then NCCL does it on the device.

use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Doorbell;
use selvedge_channels::device::{DeviceTensor, Gpu};

use super::comm::CommState;
use super::connect::Link;
use super::phase::{Contributed, Destination, Outcome, Phase};
use super::transfer::{ResultBuffer, Transfer};
use crate::error::CommError;
use crate::operation::{Collective, Medium};
use crate::parts::Template;
use crate::rendezvous::{Participant, Proposal};

/// The time limit for the copy of a finished result from the device to the host.
const DOWNLOAD: Duration = Duration::from_secs(60);

/// The number of polls of NCCL before the host goes on with other work, if NCCL is slow to enqueue.
const LOOKS: usize = 1000;

/// The operation of one rank, on a device.
pub(super) struct DeviceOperation {
    pub(super) rank: usize,
    pub(super) ranks: usize,
    pub(super) gpu: Gpu,
    pub(super) bell: Doorbell,
    pub(super) phase: Phase,
    /// Failed operations that NCCL may still be about to enqueue (NCCL-2). Dropped after the communicator.
    abandoned: Vec<Phase>,
}

impl DeviceOperation {
    pub(super) fn new(host: &Participant, gpu: &Gpu) -> Self {
        DeviceOperation {
            rank: host.rank,
            ranks: host.group.ranks(),
            gpu: gpu.clone(),
            bell: host.bell().clone(),
            phase: Phase::Idle,
            abandoned: Vec::new(),
        }
    }

    /// Arrives at the operation that was launched.
    pub(super) fn arrive(&mut self, host: &mut Participant) -> Result<(), CommError> {
        let Phase::Launched {
            operation,
            contributed,
        } = self.phase.take()
        else {
            return Err(CommError::Idle);
        };
        host.may_arrive()?;
        let (proposal, tensors, wanted) = match contributed {
            Contributed::Failure(report) => {
                let proposal = host.failure(operation, &report)?;
                (proposal, Vec::new(), Destination::Host)
            }
            Contributed::Tensors { tensors, wanted } => {
                (propose(host, operation, &tensors)?, tensors, wanted)
            }
        };
        host.arrive(&proposal)?;
        self.phase = Phase::Agreeing {
            proposal,
            tensors,
            wanted,
        };
        Ok(())
    }

    /// Advances the operation in flight as far as possible without waiting. After an error, the operation is over.
    pub(super) fn drive(
        &mut self,
        host: &mut Participant,
        link: &Link,
    ) -> Result<Option<Outcome>, CommError> {
        let outcome = self.advance(host, link);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    /// Leaves the rank idle, and keeps the memory that NCCL may need.
    fn abandon(&mut self) {
        let failed = self.phase.take();
        if let Phase::Issuing { .. } = failed {
            self.abandoned.push(failed);
        }
    }

    /// Ends the operation with an error of NCCL, or with the cause of that error: the death of a rank. While a rank is
    /// about to die, or NCCL cannot reach one, the operation waits for the report of its death.
    fn fail(
        &mut self,
        (operation, error): (Collective, CommError),
        host: &mut Participant,
        link: &Link,
    ) -> Result<Option<Outcome>, CommError> {
        host.watch();
        if let Some(gone) = host.find_gone() {
            return Err(gone);
        }
        if link.is_unreachable() || host.find_dying().is_some() {
            self.abandon();
            self.phase = Phase::Broken { operation, error };
            return Ok(None);
        }
        // The other ranks wait for this rank.
        host.give_up();
        Err(error)
    }

    fn advance(&mut self, host: &mut Participant, link: &Link) -> Result<Option<Outcome>, CommError> {
        if let Phase::Launched { .. } = self.phase {
            self.arrive(host)?;
        }
        if let Phase::Agreeing { proposal, .. } = &mut self.phase {
            match agree(host, proposal).map_err(|error| host.fail(error))? {
                None => return Ok(None),
                Some(template) => self.issue(template, link)?,
            }
        }
        if let Phase::Broken { .. } = self.phase
            && let Phase::Broken { operation, error } = self.phase.take()
        {
            return self.fail((operation, error), host, link);
        }
        if let Phase::Issuing { operation, .. } = self.phase {
            match enqueued(host, link) {
                Err(error) => return self.fail((operation, error), host, link),
                Ok(CommState::Ready) => {}
                // The end of that rank will be reported; until then, this rank waits for it.
                Ok(CommState::Unreachable) => return Ok(None),
                Ok(CommState::InProgress) => {
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
    fn issue(&mut self, template: Option<Arc<Template>>, link: &Link) -> Result<(), CommError> {
        let Phase::Agreeing {
            proposal: Proposal { operation, .. },
            tensors,
            wanted,
        } = self.phase.take()
        else {
            return Err(CommError::Idle);
        };
        let Some(template) = template else {
            self.phase = Phase::Working {
                operation,
                results: Vec::new(),
                done: None,
            };
            return Ok(());
        };
        let transfer = Transfer {
            operation,
            heads: &template.heads,
            rank: self.rank,
            ranks: self.ranks,
        };
        transfer.check()?;
        let Link { comm, stream } = link;
        let mut buffers = Vec::new();
        let issued = (|| {
            buffers = transfer.buffers(&self.gpu)?;
            tensors
                .iter()
                .try_for_each(|tensor| stream.order_after(tensor.ready()))?;
            comm.group(stream, |launch| transfer.issue(launch, &tensors, &mut buffers))
        })();
        // Set also if NCCL has refused a part of the operation: it may enqueue the rest.
        self.phase = Phase::Issuing {
            operation,
            buffers,
            wanted,
            _tensors: tensors,
        };
        if let Err(error) = issued {
            self.abandon();
            self.phase = Phase::Broken { operation, error };
        }
        Ok(())
    }

    /// Returns the enqueued results if they are wanted on the device; `None` if the host has to wait for the device.
    fn issued(&mut self, link: &Link) -> Result<Option<Outcome>, CommError> {
        let Phase::Issuing {
            operation,
            buffers,
            wanted,
            ..
        } = self.phase.take()
        else {
            return Err(CommError::Idle);
        };
        let written =
            |buffer: ResultBuffer| DeviceTensor::written(buffer.memory, buffer.layout, &link.stream);
        let results = buffers.into_iter().map(written).collect::<Result<Vec<_>, _>>()?;
        if wanted == Destination::Device {
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
    fn finish(&mut self, host: &mut Participant, link: &Link) -> Result<Option<Outcome>, CommError> {
        let Phase::Working {
            operation,
            results,
            done,
        } = &self.phase
        else {
            return Err(CommError::Idle);
        };
        if let Some(done) = done
            && !done.is_done()?
        {
            let operation = *operation;
            return match watched(host, link) {
                Ok(_) => Ok(None),
                Err(error) => self.fail((operation, error), host, link),
            };
        }
        let download = |tensor: &DeviceTensor| tensor.download(&link.stream, DOWNLOAD);
        let tensors = results.iter().map(download).collect::<Result<Vec<_>, _>>()?;
        self.phase = Phase::Idle;
        Ok(Some(Outcome::Host(tensors)))
    }

    /// Returns a description of what the operation waits for.
    pub(super) fn describe_missing(&self, host: &Participant, link: &Link) -> String {
        match self.phase {
            _ if link.is_unreachable() => {
                "a rank that NCCL cannot reach (NCCL_DEBUG=WARN tells more)".to_owned()
            }
            Phase::Issuing { .. } => "NCCL, which has not enqueued it".to_owned(),
            Phase::Working { .. } => "the device, which is not done".to_owned(),
            Phase::Broken { ref error, .. } => format!("a rank that is about to die, after {error}"),
            _ => host.describe_missing(|rank| host.has_arrived(rank)),
        }
    }
}

/// Proposes an operation on tensors of a device, of which the ranks see only types and shapes.
fn propose(
    host: &mut Participant,
    operation: Collective,
    tensors: &[DeviceTensor],
) -> Result<Proposal, CommError> {
    let mut proposal = Proposal {
        medium: Medium::Device,
        ..Proposal::new(operation)
    };
    if operation.reads(host.rank) {
        let layouts = tensors.iter().map(DeviceTensor::layout);
        let template = host.template(layouts.map(|layout| (layout.dtype(), layout.shape())))?;
        proposal.block = Some(host.heads(&template)?);
        proposal.template = Some(template);
    }
    Ok(proposal)
}

/// Returns the agreed types and shapes, or nothing for a barrier; `None` while a rank has not arrived. No rank reads the
/// memory of others afterwards, so the operation on the host is over at once.
fn agree(
    host: &mut Participant,
    proposal: &mut Proposal,
) -> Result<Option<Option<Arc<Template>>>, CommError> {
    let Some(agreed) = host.agree(proposal)? else {
        host.watch();
        return Ok(None);
    };
    host.done()?;
    host.finish()?;
    Ok(Some(agreed.template))
}

/// Polls NCCL until it has enqueued the operation, which takes a moment. Gives up after a number of polls.
fn enqueued(host: &mut Participant, link: &Link) -> Result<CommState, CommError> {
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
fn watched(host: &mut Participant, link: &Link) -> Result<CommState, CommError> {
    host.watch();
    let state = link.comm.state();
    host.group.ended()?;
    match state {
        Ok(CommState::Unreachable) => host.find_gone().map_or(Ok(CommState::Unreachable), Err),
        state => state,
    }
}
