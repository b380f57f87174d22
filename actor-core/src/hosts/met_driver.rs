//! The driver, as a worker has met it.

use selvedge_cluster::net::{Link, Listener};
use selvedge_cluster::peer::Peer;

use super::rejoin_terms::RejoinTerms;
use crate::hub::connection::Resume;

/// The driver that this worker has met, whoever has dialled.
pub(super) struct MetDriver {
    pub(super) link: Link,
    pub(super) me: Peer,
    pub(super) driver: Peer,
    /// The listener for other workers; `None` if they cannot dial this one.
    pub(super) listener: Option<Listener>,
    /// The place of the listener, if the driver does not know it yet.
    pub(super) listens_at: Option<String>,
    /// The address of a driver that this worker has dialled.
    pub(super) dialled: Option<String>,
    /// The terms on which this worker outlives the driver, if it does.
    pub(super) terms: Option<RejoinTerms>,
    /// The way to another connection.
    pub(super) resume: Resume,
}
