//! Types that users get can be named with this package alone.

use selvedge::{
    ActorId, ActorRef, BindIndex, ChannelError, Code, CompileError, Death, Diagnostic, Event, Failure,
    HostId, Lane, LaneId, Peer, PlacementLabel, ProcessId, ProcessName, PutError, Ref, RefError, RefId,
    StoreId, StoredObject, TaskId, Worker,
};

/// A place of an actor, as a program stores it.
#[derive(Debug, PartialEq)]
struct Place {
    actor: ActorId,
    lane: LaneId,
    worker: Option<ProcessId>,
    label: PlacementLabel,
}

impl Place {
    fn of(actor: &ActorRef) -> Self {
        Place {
            actor: actor.id(),
            lane: actor.lane(),
            worker: actor.worker(),
            label: actor.placement(),
        }
    }
}

fn first(error: &CompileError) -> Option<(Code, &Diagnostic)> {
    error
        .diagnostics
        .first()
        .map(|diagnostic| (diagnostic.code, diagnostic))
}

fn task(event: &Event) -> (TaskId, BindIndex) {
    (event.task_id, event.bind_index)
}

fn owner<T>(reference: &Ref<T>) -> (RefId, Peer) {
    (reference.id(), reference.owner())
}

fn channel(failure: &Failure) -> Option<&ChannelError> {
    match failure {
        Failure::Channel(error) => Some(error),
        _ => None,
    }
}

fn refused(error: &PutError) -> Option<&RefError> {
    match error {
        PutError::Reference(error) => Some(error),
        _ => None,
    }
}

#[test]
fn what_methods_and_fields_give_has_a_name_here() {
    let _: fn(&CompileError) -> Option<(Code, &Diagnostic)> = first;
    let _: fn(&Event) -> (TaskId, BindIndex) = task;
    let _: fn(&Ref<u32>) -> (RefId, Peer) = owner;
    let _: fn(&Failure) -> Option<&ChannelError> = channel;
    let _: fn(&PutError) -> Option<&RefError> = refused;
    let _: fn(&ActorRef) -> Place = Place::of;
    let _: fn(&Worker) -> HostId = Worker::host;
    let _: fn(&Lane) -> LaneId = Lane::id;
    let _: fn(&StoredObject) -> StoreId = |object| object.object;
    let _: fn(&Death) -> Option<&ProcessName> = |death| death.worker.as_ref();
}
