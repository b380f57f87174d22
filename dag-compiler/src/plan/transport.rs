//! Transports: the request of the user, the way to which it is resolved, and the path of tensors that lie on devices.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::{ActorId, Address, HostId, LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use crate::ir::{ActorIr, GraphIr, TaskIr, TensorPath, TensorPathPlan, TensorsIr, ValueId};

/// The transport that is asked for an edge. The default is [`Transport::Auto`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Chosen from the places of writer and readers; see [`resolve`].
    #[default]
    Auto,
    /// Through a channel with slots: the writer continues while the reader is busy.
    Buffered,
    /// Writer and reader both take part, as in a transfer between accelerators (NCCL's send and recv). The compiler
    /// orders these transfers so that no cycle of waiting lanes arises, and posts receives early.
    ///
    /// Between actors on the CPU, the bytes go through the ordinary channels, whose slots only add freedom.
    Rendezvous,
}

/// The transport to which an edge is resolved. Plans contain only these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Through a channel with slots.
    Buffered,
    /// By a transfer in which both endpoints take part.
    Rendezvous,
}

/// The kind of an endpoint of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The driver, which executes the graph.
    Driver,
    /// An actor.
    Actor,
}

/// The place of an endpoint of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The kind of the endpoint.
    pub who: Who,
    /// The host of the endpoint.
    pub host: HostId,
    /// The process of the endpoint.
    pub process: ProcessId,
    /// The device on which the tensors of the endpoint lie, if a device was declared.
    pub device: Option<u32>,
}

impl Site {
    /// The site of the driver.
    pub const DRIVER: Site = Site {
        who: Who::Driver,
        host: HostId::DRIVER,
        process: ProcessId::DRIVER,
        device: None,
    };

    /// Returns the site of an actor.
    pub fn actor(address: Address, device: Option<u32>) -> Self {
        Site {
            who: Who::Actor,
            host: address.host,
            process: address.process,
            device,
        }
    }
}

/// Resolves the transport of an edge. Returns the way and the reason.
///
/// | asked | ends | way |
/// |---|---|---|
/// | `Buffered` | any | buffered |
/// | any | the driver is one | buffered |
/// | `Rendezvous` | two actors | rendezvous |
/// | `Auto` | one has no device | buffered |
/// | `Auto` | devices of one host | buffered: pointers, slots and copies need no rendezvous |
/// | `Auto` | devices of two hosts | rendezvous |
pub fn resolve(asked: Transport, writer: Site, reader: Site) -> (Way, &'static str) {
    if writer.who == Who::Driver || reader.who == Who::Driver {
        return (Way::Buffered, "the driver is one of its ends");
    }
    match (asked, writer.device, reader.device) {
        (Transport::Buffered, ..) => (Way::Buffered, "asked for"),
        (Transport::Rendezvous, ..) => (Way::Rendezvous, "asked for"),
        (Transport::Auto, Some(_), Some(_)) if writer.host != reader.host => {
            (Way::Rendezvous, "its ends are on devices of two hosts")
        }
        (Transport::Auto, Some(_), Some(_)) => (Way::Buffered, "both ends are on devices of one host"),
        (Transport::Auto, ..) => (Way::Buffered, "an end is an actor without a device"),
    }
}

/// Returns notes about rendezvous that are asked for and ignored. A value that is read on the lane that makes it stays
/// there, so no transfer takes place.
pub(crate) fn ignored(graph: &GraphIr) -> Vec<String> {
    let places = graph.places();
    let mut stays: BTreeMap<LaneId, BTreeSet<ValueId>> = BTreeMap::new();
    for task in graph.tasks.iter().filter(|task| !task.meets.is_empty()) {
        for (_, value) in GraphIr::reads(task).filter(|(arg, _)| task.meets_at(*arg)) {
            let writer = graph.maker(value).and_then(|maker| graph.task(maker));
            let lane = |task: &TaskIr| places.get(&task.actor).map(|(_, lane)| *lane);
            if let Some(reader) = lane(task)
                && writer.and_then(lane) == Some(reader)
            {
                stays.entry(reader).or_default().insert(value);
            }
        }
    }
    let note = |(lane, values): (LaneId, BTreeSet<ValueId>)| {
        let names: Vec<String> = values.into_iter().map(|value| graph.value_name(value)).collect();
        let (lane, names) = (lane.0, names.join(", "));
        format!("a rendezvous was asked for and is ignored on lane {lane}, which makes and reads: {names}")
    };
    stays.into_iter().map(note).collect()
}

/// Chooses the path of the device tensors in a value. Returns the path and the reason. A reader without a known device
/// takes the tensors where they are.
///
/// | device tensors | hosts | processes | devices | road |
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
pub fn road(tensors: TensorsIr, writer: Site, reader: Site) -> (TensorPath, &'static str) {
    if !tensors.carried {
        return (TensorPath::Host, "it carries no tensors of a device");
    }
    if writer.host != reader.host {
        return (TensorPath::Nccl, "its ends are on two hosts");
    }
    match (writer.process == reader.process, writer.device, reader.device) {
        (true, Some(from), Some(to)) if from != to => (TensorPath::Copy, "one process, two devices"),
        (false, Some(from), Some(to)) if from != to => {
            (TensorPath::SlotsAndCopy, "two processes, two devices")
        }
        (true, Some(_), Some(_)) => (TensorPath::Pointer, "one process, one device"),
        (false, Some(_), Some(_)) => (TensorPath::Slots, "two processes, one device"),
        (true, _, None) => (
            TensorPath::Pointer,
            "one process; the reader takes them where they are",
        ),
        (false, _, None) => (
            TensorPath::Slots,
            "two processes; the reader takes them where they are",
        ),
        (true, None, _) => (
            TensorPath::Pointer,
            "one process; copied where they are not on the reader's device",
        ),
        (false, None, _) => (
            TensorPath::Slots,
            "two processes; copied where they are not on the reader's device",
        ),
    }
}

/// Returns the paths of all values that carry device tensors, by value and then by actor. The driver, which reads
/// outputs, comes last.
pub fn roads(graph: &GraphIr) -> Vec<TensorPathPlan> {
    let site = |actor: &ActorIr| Site::actor(actor.home, actor.device);
    let sites: BTreeMap<ActorId, Site> = graph.actors.iter().map(|actor| (actor.id, site(actor))).collect();
    let carried = |value: &ValueId| graph.value(*value).is_some_and(|value| value.tensors.carried);
    let mut readers: BTreeSet<(ValueId, Option<ActorId>)> = BTreeSet::new();
    for task in &graph.tasks {
        let reads = GraphIr::reads(task).map(|(_, value)| value).filter(carried);
        readers.extend(reads.map(|value| (value, Some(task.actor))));
    }
    // The driver is not an actor; it comes after all actors.
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().filter(carried).collect();
    let mut roads: Vec<TensorPathPlan> = Vec::new();
    for (value, reader) in readers
        .into_iter()
        .chain(outputs.into_iter().map(|value| (value, None)))
    {
        let maker = graph.maker(value).and_then(|maker| graph.task(maker));
        let writer = maker.and_then(|task| sites.get(&task.actor)).copied();
        let mut writer = writer.unwrap_or(Site::DRIVER);
        writer.device = graph.device_of(value);
        let reads = reader.and_then(|reader| sites.get(&reader)).copied();
        let tensors = graph.value(value).map(|value| value.tensors).unwrap_or_default();
        let (road, why) = road(tensors, writer, reads.unwrap_or(Site::DRIVER));
        roads.push(TensorPathPlan {
            value,
            reader,
            road,
            why: why.to_owned(),
        });
    }
    roads.sort_by_key(|road| (road.value, road.reader.is_none()));
    roads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(process: u32, device: Option<u32>) -> Site {
        Site::actor(Address::of(ProcessId(process), LaneId(1)), device)
    }

    fn away(site: Site) -> Site {
        Site {
            host: HostId(1),
            ..site
        }
    }

    #[test]
    fn type_07_auto_is_resolved_by_where_the_ends_are() {
        let auto = |writer, reader| resolve(Transport::Auto, writer, reader).0;
        let (host, gpu, next) = (at(1, None), at(1, Some(0)), at(2, Some(1)));
        for other in [Site::DRIVER, host, gpu] {
            assert_eq!(auto(Site::DRIVER, other), Way::Buffered);
            assert_eq!(auto(other, Site::DRIVER), Way::Buffered);
            assert_eq!(auto(host, other), Way::Buffered);
            assert_eq!(auto(other, host), Way::Buffered);
        }
        assert_eq!(auto(gpu, gpu), Way::Buffered);
        assert_eq!(auto(gpu, next), Way::Buffered);
        assert_eq!(auto(gpu, away(gpu)), Way::Rendezvous);
        assert_eq!(auto(host, away(gpu)), Way::Buffered);
    }

    #[test]
    fn type_07_what_is_asked_for_is_given_unless_the_driver_is_an_end() {
        let (host, gpu, next) = (at(1, None), at(1, Some(0)), at(2, Some(1)));
        for (asked, way) in [
            (Transport::Buffered, Way::Buffered),
            (Transport::Rendezvous, Way::Rendezvous),
        ] {
            for (writer, reader) in [
                (host, host),
                (host, gpu),
                (gpu, gpu),
                (gpu, next),
                (gpu, away(gpu)),
            ] {
                assert_eq!(resolve(asked, writer, reader), (way, "asked for"));
            }
        }
        assert_eq!(resolve(Transport::Rendezvous, Site::DRIVER, gpu).0, Way::Buffered);
    }

    /// The test covers every row of the table, in both directions if the reverse is another row.
    #[test]
    fn type_07_the_road_of_tensors_follows_from_host_process_and_device() {
        let carried = TensorsIr {
            carried: true,
            ..TensorsIr::default()
        };
        let by = |writer, reader| road(carried, writer, reader).0;
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
            let none = road(TensorsIr::default(), at(1, one), at(2, other)).0;
            assert_eq!(none, TensorPath::Host);
        }
        assert_eq!(
            by(Site::DRIVER, at(0, Some(1))),
            TensorPath::Pointer,
            "wherever the driver has them"
        );
    }
}
