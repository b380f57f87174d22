//! The paths by which device tensors travel from their writer to each reader, chosen from the places of both ends.

use selvedge_core::{ActorId, IdMap, IdSet};

use crate::ir::{ActorIr, Endpoint, GraphIr, TensorPath, TensorPathPlan, TensorsIr, ValueId};

/// Chooses the path of the device tensors in a value. Returns the path and the reason. A reader without a known device
/// takes the tensors where they are.
///
/// | device tensors | hosts | processes | devices | path |
/// |---|---|---|---|---|
/// | none | | | | host |
/// | some | two | | | NCCL |
/// | some | one | one | the same, or not both known | pointer |
/// | some | one | one | two | copy |
/// | some | one | two | the same, or not both known | slots |
/// | some | one | two | two | slots and copy |
///
/// Each process numbers devices itself, so the plan relies on the declared devices. At run time each tensor is checked,
/// and copied if it lies on another device.
fn path(tensors: TensorsIr, writer: Endpoint, reader: Endpoint) -> (TensorPath, String) {
    if !tensors.carried {
        return (TensorPath::Host, "it carries no tensors of a device".to_owned());
    }
    if writer.host != reader.host {
        return (TensorPath::Nccl, "its ends are on two hosts".to_owned());
    }
    let (two, devices) = match (writer.device, reader.device) {
        (Some(from), Some(to)) if from != to => (true, ", two devices"),
        (Some(_), Some(_)) => (false, ", one device"),
        (_, None) => (false, "; the reader takes them where they are"),
        (None, Some(_)) => (false, "; copied where they are not on the reader's device"),
    };
    let (path, processes) = match (writer.process == reader.process, two) {
        (true, false) => (TensorPath::Pointer, "one process"),
        (true, true) => (TensorPath::Copy, "one process"),
        (false, false) => (TensorPath::Slots, "two processes"),
        (false, true) => (TensorPath::SlotsAndCopy, "two processes"),
    };
    (path, format!("{processes}{devices}"))
}

/// Returns the paths of all values that carry device tensors, by value and then by actor. The driver, which reads
/// outputs, comes last.
pub(crate) fn tensor_paths(graph: &GraphIr) -> Vec<TensorPathPlan> {
    let endpoint = |actor: &ActorIr| Endpoint::actor(actor.home, actor.device);
    let ends: IdMap<ActorId, Endpoint> = graph
        .actors
        .iter()
        .map(|actor| (actor.id, endpoint(actor)))
        .collect();
    let carried = |value: &ValueId| graph.value(*value).is_some_and(|value| value.tensors.carried);
    let mut readers: IdSet<(ValueId, Option<ActorId>)> = IdSet::new();
    for task in &graph.tasks {
        let reads = GraphIr::reads(task).map(|(_, value)| value).filter(carried);
        readers.extend(reads.map(|value| (value, Some(task.actor))));
    }
    // The driver is not an actor; it comes after all actors.
    let outputs: IdSet<ValueId> = graph.outputs.iter().copied().filter(carried).collect();
    let mut paths: Vec<TensorPathPlan> = Vec::new();
    for (value, reader) in readers
        .into_iter()
        .chain(outputs.into_iter().map(|value| (value, None)))
    {
        let maker = graph.maker(value).and_then(|maker| graph.task(maker));
        let writer = maker.and_then(|task| ends.get(&task.actor)).copied();
        let mut writer = writer.unwrap_or(Endpoint::DRIVER);
        writer.device = graph.device_of(value);
        let reads = reader.and_then(|reader| ends.get(&reader)).copied();
        let tensors = graph.value(value).map(|value| value.tensors).unwrap_or_default();
        let (path, why) = path(tensors, writer, reads.unwrap_or(Endpoint::DRIVER));
        paths.push(TensorPathPlan {
            value,
            reader,
            path,
            why,
        });
    }
    paths.sort_by_key(|path| (path.value, path.reader.is_none()));
    paths
}

#[cfg(test)]
mod tests {
    use selvedge_core::{Address, HostId, LaneId, ProcessId};

    use super::*;

    fn at(process: u32, device: Option<u32>) -> Endpoint {
        Endpoint::actor(Address::of(ProcessId(process + 1), LaneId(1)), device)
    }

    fn away(end: Endpoint) -> Endpoint {
        Endpoint {
            host: HostId(1),
            ..end
        }
    }

    /// The test covers every row of the table, in both directions if the reverse is another row.
    #[test]
    fn type_07_the_path_of_tensors_follows_from_host_process_and_device() {
        let carried = TensorsIr {
            carried: true,
            ..TensorsIr::default()
        };
        let by = |writer, reader| path(carried, writer, reader).0;
        for (one, other) in [
            (None, None),
            (None, Some(0)),
            (Some(0), None),
            (Some(0), Some(0)),
            (Some(0), Some(1)),
        ] {
            let two = one.is_some() && other.is_some() && one != other;
            let (within, between) = if two {
                (TensorPath::Copy, TensorPath::SlotsAndCopy)
            } else {
                (TensorPath::Pointer, TensorPath::Slots)
            };
            assert_eq!(by(at(1, one), at(1, other)), within, "{one:?} {other:?}");
            assert_eq!(by(at(1, one), at(2, other)), between, "{one:?} {other:?}");
            assert_eq!(by(at(2, other), at(1, one)), between, "{one:?} {other:?}");
            assert_eq!(by(at(1, one), away(at(1, other))), TensorPath::Nccl);
            let none = path(TensorsIr::default(), at(1, one), at(2, other)).0;
            assert_eq!(none, TensorPath::Host);
        }
        assert_eq!(
            by(Endpoint::DRIVER, at(0, Some(1))),
            TensorPath::Pointer,
            "wherever the driver has them"
        );
    }
}
