//! Why other processes cannot be reached: for each the last reason.

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use crate::call::remote_error::RemoteError;

/// The processes to which no link can be made, each with the reason.
#[derive(Default)]
pub(crate) struct Unreachable(Mutex<IdMap<ProcessId, (Incarnation, String)>>);

impl Unreachable {
    /// No link to a peer can be made.
    pub(crate) fn note(&self, peer: Peer, why: String) {
        self.0.lock().insert(peer.process, (peer.incarnation, why));
    }

    /// The error of a call to a peer that cannot be reached; `None` for one that could.
    pub(super) fn of(&self, peer: Peer) -> Option<RemoteError> {
        let reasons = self.0.lock();
        let (incarnation, why) = reasons.get(&peer.process)?;
        (*incarnation == peer.incarnation).then(|| RemoteError::NoLink(why.clone()))
    }

    /// The error of a call to a process none of whose lives can be reached now.
    pub(super) fn of_process(&self, process: ProcessId) -> Option<RemoteError> {
        let reasons = self.0.lock();
        let (_, why) = reasons.get(&process)?;
        Some(RemoteError::NoLink(why.clone()))
    }
}
