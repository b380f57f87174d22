//! The names of a head's last life, in its next one.

use std::sync::Arc;

use selvedge_cluster::id_map::IdSet;
use selvedge_cluster::peer::Peer;
use selvedge_objects::names::NameChange;

use crate::head_log::{HeadLog, HeadRecord, HeadState, MemberPart};
use crate::runtime::Runtime;

/// Has the runtime go on with the names of the head's last life, but for those of owners that have ended with it.
pub(super) fn restore_names(runtime: &Runtime, state: &HeadState, log: &Arc<HeadLog>) {
    let log = Arc::clone(log);
    let recorder = move |changes: Vec<NameChange>, then: Box<dyn FnOnce() + Send>| {
        for change in changes {
            log.note_later(HeadRecord::Name(change));
        }
        // A head whose log fails tells nothing more: it ends.
        log.after_all(move |logged| {
            if logged.is_ok() {
                then();
            }
        });
    };
    let naming = runtime.remote().naming();
    let names = state.names.values();
    naming.restore(names.clone().cloned().map(NameChange::Named), Box::new(recorder));
    let guests: IdSet<Peer> = state.of_part(MemberPart::Guest).map(|(peer, _)| peer).collect();
    let owners: IdSet<Peer> = names.map(|object| object.id.owner).collect();
    let dead = owners.iter().filter(|owner| !guests.contains(owner));
    dead.for_each(|dead| naming.ended(*dead));
}
