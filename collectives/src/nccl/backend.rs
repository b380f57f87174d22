//! NCCL as a backend, which graphs select by name.

use selvedge_channels::device::{Gpu, probe};

use super::NAME;
use super::capabilities::capabilities;
use super::comm::unavailable;
use super::rank::NcclRank;
use crate::backend::{Backend, Joining};
use crate::communicator::Communicator;
use crate::error::CommError;

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
