//! Systems other than Linux, where there are no hosts.

use std::convert::Infallible;

use crate::{HostsError, LeftOut};

/// Hosts, of which this system has none.
#[derive(Debug)]
pub struct Hosts(Infallible);

impl Hosts {
    /// Says that hosts need Linux.
    ///
    /// # Errors
    /// [`LeftOut::System`], always.
    pub fn new(_: usize) -> Result<Self, HostsError> {
        Err(LeftOut::System.into())
    }
}
