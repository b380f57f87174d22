//! The capabilities of NCCL.

use selvedge_channels::DType;

use super::NAME;
use super::transfer::reduction;
use crate::communicator::Capabilities;
use crate::operation::ReduceOp;

/// Returns the capabilities of NCCL. The module [`nccl`](super) describes how it differs from the reference.
pub(super) fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::everything(NAME);
    let all = capabilities.dtypes.iter().copied();
    let lacks = |dtype: DType| {
        let ops = ReduceOp::ALL.into_iter();
        let lacks = ops.filter(move |op| op.is_defined_for(dtype) && reduction(*op, dtype).is_none());
        lacks.map(move |op| (op, dtype))
    };
    capabilities.lacks_reductions = all.flat_map(lacks).collect();
    capabilities.fixed_order = false;
    capabilities
}
