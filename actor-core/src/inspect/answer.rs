//! The rows of each topic.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefStatus;
use selvedge_objects::store::ObjectPlace;

use super::members::{MemberState, members};
use super::serve::Answers;
use super::table::{InspectTable, InspectValue};
use super::topic::InspectTopic;
use crate::directory::Directory;
use crate::remote::service::Remote;
use crate::task::listing::{CallState, functions};

/// The tables of a runtime, as long as there is one.
pub(crate) fn answers(directory: &Arc<Directory>, remote: &Arc<Remote>) -> Answers {
    let (directory, remote) = (Arc::downgrade(directory), Arc::downgrade(remote));
    Arc::new(move |topic, rows_max| {
        let (Some(directory), Some(remote)) = (Weak::upgrade(&directory), Weak::upgrade(&remote)) else {
            return InspectTable::default();
        };
        match topic {
            InspectTopic::Functions => of_functions(rows_max),
            InspectTopic::Calls => of_calls(&remote, rows_max),
            InspectTopic::Objects => of_objects(&remote, rows_max),
            InspectTopic::References => of_references(&remote, rows_max),
            InspectTopic::Names => of_names(&remote, rows_max),
            InspectTopic::Members => of_members(&directory, &remote, rows_max),
        }
    })
}

fn of_functions(rows_max: usize) -> InspectTable {
    let columns = ["function", "retries", "id", "signature"];
    let rows = functions().into_iter().map(|function| {
        vec![
            function.path.into(),
            function.retries.map(u64::from).into(),
            format!("{:016x}", function.id).into(),
            // The compiler breaks long ones into lines.
            function
                .signature
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .into(),
        ]
    });
    InspectTable::of(&columns, rows, rows_max, 0)
}

fn of_calls(remote: &Remote, rows_max: usize) -> InspectTable {
    let columns = ["call", "function", "state", "process", "attempts", "needs"];
    let (calls, left_out) = remote.tasks().listed(rows_max);
    let rows = calls.into_iter().map(|call| {
        let (state, process) = match call.state {
            CallState::Queued => ("queued", None),
            CallState::Running(process) => ("running", Some(u64::from(process.number()))),
            CallState::Alias => ("alias", None),
            CallState::Made => ("made", None),
            CallState::Failed => ("failed", None),
        };
        vec![
            call.digest.to_string().into(),
            call.function.into(),
            state.into(),
            process.into(),
            u64::from(call.attempts).into(),
            call.needs.to_string().into(),
        ]
    });
    InspectTable::of(&columns, rows, rows_max, left_out)
}

fn of_objects(remote: &Remote, rows_max: usize) -> InspectTable {
    let columns = ["object", "bytes", "place", "read_by", "freed"];
    let (objects, left_out) = remote.stores.listed(rows_max);
    let rows = objects.into_iter().map(|object| {
        let place = match object.place {
            ObjectPlace::Unsealed => "being filled",
            ObjectPlace::Memory => "memory",
            ObjectPlace::Leaving => "on its way to the file",
            ObjectPlace::File => "file",
            ObjectPlace::Coming => "on its way to memory",
            ObjectPlace::Dropped => "dropped, to be made again",
            _ => "unknown",
        };
        vec![
            object.object.0.into(),
            object.bytes.into(),
            place.into(),
            processes(&object.pinned_by),
            object.is_freed.into(),
        ]
    });
    InspectTable::of(&columns, rows, rows_max, left_out)
}

fn of_references(remote: &Remote, rows_max: usize) -> InspectTable {
    let columns = ["owner", "creator", "number", "state", "handles", "held_by"];
    let (listed, left_out) = remote.references.listed(rows_max);
    let rows = listed.into_iter().map(|listed| {
        let state = match (listed.is_made, listed.status) {
            (Some(true), _) => "made",
            (Some(false), _) => "awaited",
            (None, RefStatus::Confirmed) => "held",
            (None, RefStatus::Pending) => "asked for",
            (None, RefStatus::TimedOut) => "not confirmed in time",
            (None, RefStatus::Lost) => "lost",
        };
        vec![
            process(listed.id.owner),
            process(listed.id.creator),
            listed.id.number.into(),
            state.into(),
            listed.handles.into(),
            processes(&listed.holders),
        ]
    });
    InspectTable::of(&columns, rows, rows_max, left_out)
}

fn of_names(remote: &Remote, rows_max: usize) -> InspectTable {
    let columns = ["name", "type", "owner", "creator", "number", "named_by"];
    let rows = remote.naming().names().into_iter().map(|object| {
        vec![
            object.name.into(),
            object.type_name.into(),
            process(object.id.owner),
            process(object.id.creator),
            object.id.number.into(),
            process(object.namer),
        ]
    });
    InspectTable::of(&columns, rows, rows_max, 0)
}

fn of_members(directory: &Directory, remote: &Remote, rows_max: usize) -> InspectTable {
    let columns = ["process", "worker", "host", "pid", "state"];
    let rows = members(directory, remote.me()).into_iter().map(|member| {
        let state = match member.state {
            MemberState::Here => "answers".into(),
            MemberState::Starting => "starting".into(),
            MemberState::Lives => "lives".into(),
            MemberState::Ended(why) => why.into(),
        };
        vec![
            u64::from(member.name.process().number()).into(),
            member.name.worker().into(),
            member.name.host().into(),
            member.pid.map(u64::from).into(),
            state,
        ]
    });
    InspectTable::of(&columns, rows, rows_max, 0)
}

fn process(peer: Peer) -> InspectValue {
    u64::from(peer.process.number()).into()
}

fn processes(peers: &[Peer]) -> InspectValue {
    let mut numbers: Vec<u64> = peers.iter().map(|peer| peer.process.number().into()).collect();
    numbers.dedup();
    InspectValue::Numbers(numbers)
}
