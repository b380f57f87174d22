//! Transfers: an operation as NCCL calls on bytes.
//!
//! An operation for which NCCL has no call consists of sends and receives in one group, in which no rank waits for
//! another's order.

use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};
use selvedge_channels::DType;
use selvedge_channels::device::{DeviceMemory, DeviceTensor, Gpu, Span, SpanMut, TensorLayout};

use super::comm::{Launch, NcclReduction};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Head, Heads};

/// The data of an operation that every rank knows once the ranks agree on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer<'h> {
    pub(super) operation: Collective,
    /// The types and shapes of every rank's contribution, or of the root's alone.
    pub(super) heads: &'h Heads,
    pub(super) rank: usize,
    pub(super) ranks: usize,
}

/// The memory of a future result.
#[derive(Debug)]
pub(super) struct ResultBuffer {
    pub(super) layout: TensorLayout,
    pub(super) memory: DeviceMemory,
}

/// Returns NCCL's name for a type; `None` for a type that NCCL does not know.
fn kind(dtype: DType) -> Option<ncclDataType_t> {
    Some(match dtype {
        DType::I8 => ncclDataType_t::ncclInt8,
        // The minimum and maximum of booleans are those of 0 and 1.
        DType::U8 | DType::Bool => ncclDataType_t::ncclUint8,
        DType::I32 => ncclDataType_t::ncclInt32,
        DType::U32 => ncclDataType_t::ncclUint32,
        DType::I64 => ncclDataType_t::ncclInt64,
        DType::U64 => ncclDataType_t::ncclUint64,
        DType::F16 => ncclDataType_t::ncclFloat16,
        DType::BF16 => ncclDataType_t::ncclBfloat16,
        DType::F32 => ncclDataType_t::ncclFloat32,
        DType::F64 => ncclDataType_t::ncclFloat64,
        _ => return None,
    })
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Returns a reduction in NCCL's terms; `None` for a reduction that NCCL does not support, or does otherwise than the
/// reference.
pub(super) fn reduction(op: ReduceOp, dtype: DType) -> Option<NcclReduction> {
    let word = match op {
        ReduceOp::Sum => ncclRedOp_t::ncclSum,
        ReduceOp::Product => ncclRedOp_t::ncclProd,
        ReduceOp::Min => ncclRedOp_t::ncclMin,
        ReduceOp::Max => ncclRedOp_t::ncclMax,
        ReduceOp::Average if is_float(dtype) => ncclRedOp_t::ncclAvg,
        ReduceOp::Average => return None,
    };
    Some(NcclReduction {
        kind: kind(dtype)?,
        op: word,
        size: dtype.size_bytes(),
    })
}

impl ResultBuffer {
    fn whole(&mut self) -> Result<SpanMut<'_>, CommError> {
        Ok(self.memory.span_mut(0, self.layout.len_bytes())?)
    }

    /// Returns part `index` of `parts` equal parts.
    fn part(&mut self, index: usize, parts: usize) -> Result<SpanMut<'_>, CommError> {
        let each = self.layout.len_bytes() / parts.max(1);
        Ok(self.memory.span_mut(index * each, each)?)
    }
}

/// Returns part `index` of `parts` equal parts of a contribution.
fn part_of(brought: Span<'_>, index: usize, parts: usize) -> Result<Span<'_>, CommError> {
    let each = brought.len_bytes() / parts.max(1);
    Ok(brought.part(index * each, each)?)
}

fn absent() -> CommError {
    CommError::Corrupt {
        what: "a tensor that was agreed on is missing",
    }
}

impl Transfer<'_> {
    /// Refuses operations that NCCL does not support, alike on every rank.
    pub(super) fn check(&self) -> Result<(), CommError> {
        let (operation, heads) = (self.operation, &self.heads.0);
        let unknown = |op: ReduceOp| {
            move |head: &Head| op.is_defined_for(head.dtype) && reduction(op, head.dtype).is_none()
        };
        if let Some(op) = operation.reduce_op()
            && heads.iter().any(unknown(op))
        {
            return Err(CommError::Unsupported {
                operation,
                why: "NCCL reduces no 16-bit integers, and averages none",
            });
        }
        Ok(())
    }

    /// Returns the head of this rank's result for one part.
    fn result(&self, head: &Head) -> Option<Head> {
        match self.operation {
            _ if !self.operation.returns_to(self.rank) => None,
            Collective::AllGather | Collective::Gather { .. } => {
                head.with_first(|first| first.checked_mul(self.ranks))
            }
            Collective::ReduceScatter(_) | Collective::Scatter { .. } => {
                head.with_first(|first| first.checked_div(self.ranks))
            }
            _ => Some(head.clone()),
        }
    }

    /// Allocates memory for this rank's results.
    pub(super) fn buffers(&self, gpu: &Gpu) -> Result<Vec<ResultBuffer>, CommError> {
        let results = self.heads.0.iter().filter_map(|head| self.result(head));
        let buffer = |head: Head| {
            let layout = TensorLayout::new(head.dtype, head.shape)?;
            let memory = DeviceMemory::new(gpu, layout.len_bytes())?;
            Ok(ResultBuffer { layout, memory })
        };
        results.map(buffer).collect()
    }

    /// Makes the calls for all tensors.
    pub(super) fn issue(
        &self,
        launch: &Launch<'_>,
        brought: &[DeviceTensor],
        buffers: &mut [ResultBuffer],
    ) -> Result<(), CommError> {
        let (mut brought, mut buffers) = (brought.iter(), buffers.iter_mut());
        for head in &self.heads.0 {
            let (brought, buffer) = (brought.next(), buffers.next());
            // Empty tensors are not moved, and every rank knows that.
            if head.count() != Some(0) {
                let brought = brought.map(DeviceTensor::span).transpose()?;
                self.part(launch, head.dtype, brought, buffer)?;
            }
        }
        Ok(())
    }

    /// Makes the calls for one tensor.
    fn part(
        &self,
        launch: &Launch<'_>,
        dtype: DType,
        brought: Option<Span<'_>>,
        buffer: Option<&mut ResultBuffer>,
    ) -> Result<(), CommError> {
        let ranks = self.ranks;
        let how = |op| reduction(op, dtype).ok_or_else(absent);
        match (self.operation, brought, buffer) {
            (Collective::AllReduce(op), Some(brought), Some(buffer)) => {
                launch.all_reduce(brought, &buffer.whole()?, how(op)?)
            }
            (Collective::ReduceScatter(op), Some(brought), Some(buffer)) => {
                launch.reduce_scatter(brought, &buffer.whole()?, ranks, how(op)?)
            }
            (Collective::Reduce { op, root }, Some(brought), buffer) => {
                let buffer = buffer.map(ResultBuffer::whole).transpose()?;
                launch.reduce(brought, buffer.as_ref(), root, how(op)?)
            }
            (Collective::AllGather, Some(brought), Some(buffer)) => {
                launch.all_gather(brought, &buffer.whole()?, ranks)
            }
            (Collective::Gather { root }, Some(brought), buffer) => {
                launch.send(brought, root)?;
                buffer.map_or(Ok(()), |buffer| {
                    (0..ranks).try_for_each(|peer| launch.recv(&buffer.part(peer, ranks)?, peer))
                })
            }
            (Collective::Broadcast { root }, brought, Some(buffer)) => {
                launch.broadcast(brought.filter(|_| root == self.rank), &buffer.whole()?, root)
            }
            (Collective::Scatter { root }, brought, Some(buffer)) => {
                if root == self.rank {
                    let brought = brought.ok_or_else(absent)?;
                    (0..ranks).try_for_each(|peer| launch.send(part_of(brought, peer, ranks)?, peer))?;
                }
                launch.recv(&buffer.whole()?, root)
            }
            (Collective::AllToAll, Some(brought), Some(buffer)) => (0..ranks).try_for_each(|peer| {
                launch.send(part_of(brought, peer, ranks)?, peer)?;
                launch.recv(&buffer.part(peer, ranks)?, peer)
            }),
            _ => Err(absent()),
        }
    }
}
