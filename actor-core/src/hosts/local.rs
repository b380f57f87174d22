//! Workers on this host that are reached over TCP.

use std::num::NonZeroU16;

use selvedge_cluster::manager::{BindAddress, WorkerConfig};

use super::manager::{ClusterManager, this_program};
use super::terms::{Terms, terms_getters, terms_setters};
use crate::BoxError;

/// Workers on this host that are reached over TCP, as those of other hosts are. [`Runtime::worker`](crate::Runtime::worker)
/// starts workers that share memory and need no port; these are for trying out what a cluster does.
///
/// The workers run this program, and listen on the loopback interface, so that no other host can reach them.
#[derive(Clone, Debug)]
pub struct LocalManager {
    count: NonZeroU16,
    bind: Option<BindAddress>,
    terms: Terms,
}

impl LocalManager {
    /// A manager of this number of workers.
    #[must_use]
    pub fn workers(count: NonZeroU16) -> Self {
        LocalManager {
            count,
            bind: None,
            terms: Terms::default(),
        }
    }

    /// One worker for each core that this process may use.
    #[must_use]
    pub fn auto() -> Self {
        let cores = std::thread::available_parallelism().map_or(NonZeroU16::MIN, |cores| {
            NonZeroU16::try_from(cores).unwrap_or(NonZeroU16::MAX)
        });
        Self::workers(cores)
    }

    /// Has the workers listen on another interface, so that workers of other hosts can reach them. A port in the address is the
    /// first worker's.
    #[must_use]
    pub fn bind(mut self, bind: BindAddress) -> Self {
        self.bind = Some(bind);
        self
    }
}

terms_setters!(LocalManager);

impl ClusterManager for LocalManager {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<(), BoxError> {
        let command = this_program()?;
        let loopback: BindAddress = "127.0.0.1".parse()?;
        let bind = self.bind.clone().unwrap_or(loopback);
        for number in 1..=self.count.get() {
            let bind = bind.clone().of_worker(number);
            out(WorkerConfig::default()
                .ident(format!("local {number}"))
                .command(command.clone().bind(bind)));
        }
        Ok(())
    }

    terms_getters!();
}
