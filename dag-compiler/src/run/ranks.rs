//! A lane's parts in collectives: one step posts a part, another awaits it, and the lane advances it in between.
//!
//! A COLLECTIVE only *posts* the contribution of its rank; the WRITE after it waits for the result. In between the lane
//! does other work. At every step, and while it waits for anything, the lane advances the posted operations, so that
//! the ranks that wait for its share need not wait for its WRITE. A rank takes part in one operation at a time: parts
//! that are posted meanwhile queue in the order of the lane's steps, which is the same on every rank.
//!
//! - `RANK-1` every rank takes part in every collective of every execution; a rank without a value contributes a
//!   failure.
//! - `RANK-2` a posted part keeps its input at least until it is launched.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "cuda")]
use selvedge_channels::device::DeviceTensor;
use selvedge_channels::{AnyOutlet, Fault, FaultKind, Tensor};
use selvedge_collectives::{Collective, CommError, Communicator, Contribution, Part as Array, PlanId};
use selvedge_core::{Failure, panic_message};

use crate::bind::collective::Adapter;
use crate::run::lane::{Broken, LaneError, LaneValues, TaskRun};
use crate::run::report::fault_of;
use crate::run::table::{RankIx, Table, TaskIx};

/// A task's part as a rank of a collective, in place of a method.
pub(crate) struct CollectiveRun {
    /// The rank of the lane.
    pub(crate) rank: RankIx,
    pub(crate) plan: PlanId,
    pub(crate) operation: Collective,
    pub(crate) adapter: &'static Adapter,
    pub(crate) part: Part,
}

/// The progress of a rank's part in a collective of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Posted,
    /// The result is staged, and the input is released.
    Over,
}

/// A task whose part in a collective was posted.
#[derive(Clone, Copy)]
struct Posted {
    task: TaskIx,
    execution: u64,
    /// True if the part's input is to be released when the part is over.
    holds_input: bool,
}

/// A rank that a lane drives, with its posted tasks.
pub(crate) struct RankRun {
    pub(crate) communicator: Box<dyn Communicator>,
    /// Tasks that were posted; the first one is in flight.
    posted: VecDeque<Posted>,
    launched: bool,
}

impl RankRun {
    pub(crate) fn new(communicator: Box<dyn Communicator>) -> Self {
        RankRun {
            communicator,
            posted: VecDeque::new(),
            launched: false,
        }
    }

    pub(crate) fn post(&mut self, task: TaskIx, execution: u64, holds_input: bool) {
        self.posted.push_back(Posted {
            task,
            execution,
            holds_input,
        });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.posted.is_empty()
    }

    /// Advances the posted parts as far as possible.
    pub(crate) fn advance(
        &mut self,
        tasks: &mut Table<TaskIx, TaskRun>,
        values: &mut LaneValues,
    ) -> Result<(), Box<Broken>> {
        while let Some(posted) = self.posted.front().copied() {
            let (task, execution) = (tasks.at_mut(posted.task)?, posted.execution);
            let id = task.id;
            if !self.launched {
                self.launch(task, values, execution)
                    .map_err(|error| Broken::at(id, error))?;
                self.launched = true;
            }
            let outcome = match guarded(|| poll(self.communicator.as_mut(), task)) {
                Ok(None) => break,
                Ok(Some(product)) => Ok(product),
                Err(error) => Err(error),
            };
            self.posted.pop_front();
            self.launched = false;
            let settled = settle(self.communicator.rank(), task, values, execution, outcome);
            settled.map_err(|error| Broken::at(id, error))?;
            if posted.holds_input {
                release_inputs(task, values).map_err(|error| Broken::at(id, error))?;
            }
        }
        Ok(())
    }

    fn launch(
        &mut self,
        task: &mut TaskRun,
        values: &mut LaneValues,
        execution: u64,
    ) -> Result<(), CommError> {
        let Some(collective) = &task.collective else {
            return Ok(());
        };
        let mut launched: Option<Result<(), CommError>> = None;
        if task.fault.is_none() {
            let value = task.args.first().and_then(|value| values.get(*value));
            let communicator = self.communicator.as_mut();
            // Runs user code if the type is user-defined.
            let shown = Failure::catch(|| {
                let value = value.ok_or_else(|| Failure::Internal("a collective without a value".into()))?;
                #[cfg(feature = "cuda")]
                if let (Some(adapter), Some(rank)) = (collective.adapter.on_device, communicator.on_device())
                {
                    let tensors = (adapter.tensors)(value.as_ref())?;
                    launched = Some(rank.launch_on_device(collective.plan, &tensors));
                    return Ok(());
                }
                let mut launch = |parts: &[Array<'_>]| {
                    launched.get_or_insert_with(|| {
                        communicator.launch(collective.plan, Contribution::Parts(parts))
                    });
                };
                Ok((collective.adapter.contribute)(value.as_ref(), &mut launch)?)
            });
            let failure = match (shown, &launched) {
                (Err(failure), None) => Some(failure),
                (Ok(()), None) => Some(Failure::Internal("a contribution that shows nothing".into())),
                _ => None,
            };
            let failure = match (failure, launched) {
                (None, Some(Err(error))) if !is_final(&error) => Some(Failure::from_error(error)),
                (None, Some(launched)) => return launched,
                (failure, _) => failure,
            };
            task.fault = failure.map(|failure| fault_of(&task.info, execution, failure));
        }
        let fault = task.fault.as_ref();
        let report = fault.map(fault_bytes).unwrap_or_default();
        let (communicator, plan) = (self.communicator.as_mut(), collective.plan);
        guarded(|| communicator.launch(plan, Contribution::Failure(&report)))
    }
}

/// Calls a communicator, which may be user-defined. A panic in it becomes an error that ends the group, and does not
/// leave this function.
fn guarded<T>(ask: impl FnOnce() -> Result<T, CommError>) -> Result<T, CommError> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|payload| {
        let reason = format!("panicked: {}", panic_message(payload));
        Err(CommError::Backend {
            backend: "the communicator",
            reason,
        })
    })
}

/// The result of an operation.
enum Product {
    Host(Vec<Tensor>),
    #[cfg(feature = "cuda")]
    Device(Vec<DeviceTensor>),
}

/// Polls for the result of the operation that a task has launched, on the device if the task needs it there.
fn poll(communicator: &mut dyn Communicator, task: &TaskRun) -> Result<Option<Product>, CommError> {
    #[cfg(feature = "cuda")]
    if let Some(collective) = &task.collective
        && collective.adapter.on_device.is_some()
        && let Some(rank) = communicator.on_device()
    {
        return Ok(rank.poll_on_device()?.map(Product::Device));
    }
    let _ = task;
    Ok(communicator.poll()?.map(Product::Host))
}

/// Makes a value from a result and stages it.
fn deliver(collective: &CollectiveRun, outlet: &mut dyn AnyOutlet, product: Product) -> Result<(), Failure> {
    match product {
        Product::Host(tensors) => (collective.adapter.deliver)(outlet, tensors).map_err(Failure::from_error),
        #[cfg(feature = "cuda")]
        Product::Device(tensors) => match collective.adapter.on_device {
            Some(adapter) => Ok((adapter.deliver)(outlet, tensors)?),
            None => Err(Failure::Internal("a result on a device for who has none".into())),
        },
    }
}

/// Whether the error ends the group, and with it the graph.
fn is_final(error: &CommError) -> bool {
    matches!(
        error,
        CommError::PeerLost { .. }
            | CommError::PeerLeft { .. }
            | CommError::Aborted { .. }
            | CommError::Corrupt { .. }
            | CommError::Busy { .. }
            | CommError::Idle
            | CommError::NoSuchPlan
    )
}

/// Stages a result, or the failure that all ranks share.
fn settle(
    own: usize,
    task: &mut TaskRun,
    values: &mut LaneValues,
    execution: u64,
    outcome: Result<Product, CommError>,
) -> Result<(), CommError> {
    let Some(collective) = &mut task.collective else {
        return Ok(());
    };
    collective.part = Part::Over;
    let results = task.outlets.get_mut(..task.results).unwrap_or_default();
    let failure = match outcome {
        Ok(product) => {
            let outlet = results.iter_mut().flatten().next();
            let staged = Failure::catch(|| match outlet {
                Some(outlet) if collective.operation == Collective::Barrier => {
                    let value = task.args.first().and_then(|value| values.get_mut(*value));
                    let value = value.ok_or_else(|| Failure::Internal("a barrier without a value".into()))?;
                    Ok((collective.adapter.pass)(value.as_mut(), outlet.as_mut())?)
                }
                Some(outlet) => deliver(collective, outlet.as_mut(), product),
                None => Ok(()),
            });
            staged.err()
        }
        Err(CommError::PeerFailed { rank, report }) => {
            // All ranks get the failure of the same rank; that rank keeps the user's own error with it.
            let own = task.fault.take().filter(|_| rank == own);
            task.fault = Some(own.unwrap_or_else(|| fault_from(&report)));
            None
        }
        // After a launch no other rank can go on without this rank's share.
        Err(error @ (CommError::Segment(_) | CommError::Backend { .. })) => return Err(error),
        #[cfg(feature = "cuda")]
        Err(error @ CommError::Device(_)) => return Err(error),
        Err(error) if is_final(&error) => return Err(error),
        Err(error) => Some(Failure::from_error(error)),
    };
    if let Some(failure) = failure {
        task.fault = Some(fault_of(&task.info, execution, failure));
    }
    if !task.stage_fault() {
        task.stage_signal();
    }
    Ok(())
}

/// Counts a read of each input of a task.
pub(crate) fn release_inputs(task: &TaskRun, values: &mut LaneValues) -> Result<(), LaneError> {
    for value in &task.args {
        values.at_mut(*value)?.read_done()?;
    }
    Ok(())
}

/// A fault as bytes for the other ranks: its kind, then its report.
fn fault_bytes(fault: &Fault) -> Vec<u8> {
    let kind = u8::from(fault.kind() == FaultKind::Failed);
    let mut bytes = vec![kind];
    bytes.extend_from_slice(fault.report());
    bytes
}

fn fault_from(bytes: &[u8]) -> Fault {
    match bytes.split_first() {
        Some((1, report)) => Fault::failed(report.to_vec(), None),
        _ => Fault::cancelled(),
    }
}
