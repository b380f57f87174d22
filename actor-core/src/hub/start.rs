//! The place where the services of a process are registered.

use std::sync::Arc;

use selvedge_objects::channel::CHANNELS;
use selvedge_objects::refs::REFERENCES;

use super::Hub;
use super::post::Receiver;
use crate::lease::correspondence::PROGRAMS;
use crate::naming::message::NAMES;
use crate::reference::fetch::FETCHES;
use crate::remote::message::CALLS;
use crate::remote::service::Remote;
use crate::store::message::{STORES, TRANSFERS};

/// Registers the services of a process with its new hub: of a driver when its runtime is made, of a worker when the
/// driver has welcomed it.
pub(crate) fn register_services(hub: &Arc<Hub>, remote: &Arc<Remote>) {
    for service in [CALLS, CHANNELS, FETCHES, NAMES, REFERENCES, STORES, TRANSFERS] {
        hub.register(service, remote.receiver());
    }
    hub.register(PROGRAMS, Arc::clone(&remote.correspondences) as Arc<dyn Receiver>);
    #[cfg(test)]
    super::tests::register(hub);
}
