//! NCCL as a backend, which graphs select by name, and its capabilities.

use selvedge_channels::DType;
use selvedge_channels::device::{Gpu, probe};

use super::NAME;
use super::comm::unavailable;
use super::rank::NcclRank;
use super::transfer::reduction;
use crate::backend::{Backend, Joining};
use crate::communicator::{Capabilities, Communicator};
use crate::error::CommError;
use crate::operation::ReduceOp;

/// The backend of graphs for `Options::communicator("nccl")`. Rank r is on device r of those that its process sees,
/// modulo their number.
pub const BACKEND: Backend = Backend {
    name: NAME,
    capabilities,
    join,
};

fn join(joining: &Joining<'_>) -> Result<Box<dyn Communicator>, CommError> {
    let group = joining.host.ok_or(CommError::Corrupt {
        what: "a group without memory of the host",
    })?;
    let devices = probe().map_err(unavailable)?;
    let devices = u32::try_from(devices.devices.len()).unwrap_or(u32::MAX).max(1);
    let gpu = Gpu::open(joining.rank as u32 % devices)?;
    Ok(Box::new(NcclRank::new(group, joining.rank, &gpu)?))
}

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
