//! The place where the services of a process are registered.

use std::sync::Arc;

use super::Hub;

/// Registers the services of a process with its new hub: of a driver when its runtime is made, of a worker when the
/// driver has welcomed it.
pub(crate) fn register_services(hub: &Arc<Hub>) {
    #[cfg(test)]
    super::tests::register(hub);
    let _ = hub;
}
