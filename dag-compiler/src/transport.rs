//! How a value crosses from actor to actor: what the user asks for, what it is resolved to, and how its tensors travel where
//! they lie on devices.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::{ActorId, LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use crate::ir::{ActorIr, GraphIr, Road, RoadPlan, TaskIr, TensorsIr, ValueId};

/// What is asked of an edge; the default is [`Transport::Auto`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Decided by where writer and readers are: see [`resolve`].
    #[default]
    Auto,
    /// Through a channel with slots: the writer goes on while the reader is busy.
    Buffered,
    /// Writer and reader both take part, as in a transfer between accelerators (NCCL's send and recv). The compiler orders
    /// these transfers so that nobody waits in a circle, and posts receives early.
    ///
    /// Between actors on the CPU the bytes go through the same channels as ever, with slots, which only adds freedom.
    Rendezvous,
}

/// What an edge is resolved to; plans know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Through a channel with slots.
    Buffered,
    /// By a transfer in which both take part.
    Rendezvous,
}

/// Who an end of an edge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever executes the graph.
    Driver,
    /// An actor.
    Actor,
}

/// Where an end of an edge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Who it is.
    pub who: Who,
    /// Number of its host.
    pub host: u32,
    /// Its process.
    pub process: ProcessId,
    /// The device that its tensors lie on, if anybody has said so.
    pub device: Option<u32>,
}

impl Site {
    /// The driver's.
    pub const DRIVER: Site = Site {
        who: Who::Driver,
        host: 0,
        process: ProcessId::DRIVER,
        device: None,
    };

    /// An actor's, of this host.
    pub fn actor(process: ProcessId, device: Option<u32>) -> Self {
        Site {
            who: Who::Actor,
            host: 0,
            process,
            device,
        }
    }
}

/// The decision table of how the ends of an edge meet: the way, and why.
///
/// | asked | ends | way |
/// |---|---|---|
/// | `Buffered` | any | buffered |
/// | any | the driver is one | buffered |
/// | `Rendezvous` | two actors | rendezvous |
/// | `Auto` | one has no device | buffered |
/// | `Auto` | devices of one host | buffered: pointers, slots and copies need no meeting |
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

/// What is asked for in vain, in words: a value that is read on the lane that makes it stays there, and no two meet for it.
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

/// The decision table of how the tensors of a device in a value travel, and why. A reader of whom no device is known takes
/// them where they are.
///
/// | a device's tensors | hosts | processes | devices | road |
/// |---|---|---|---|---|
/// | none | | | | host |
/// | some | two | | | NCCL |
/// | some | one | one | the same, or not both known | pointer |
/// | some | one | one | two | copy |
/// | some | one | two | the same, or not both known | slots |
/// | some | one | two | two | slots and copy |
///
/// Devices are known by the numbers that their processes give them, so what is planned goes by what was said; at run time each
/// tensor is looked at, and is copied where it turns out to be elsewhere.
pub fn road(tensors: TensorsIr, writer: Site, reader: Site) -> (Road, &'static str) {
    if !tensors.carried {
        return (Road::Host, "it carries no tensors of a device");
    }
    if writer.host != reader.host {
        return (Road::Nccl, "its ends are on two hosts");
    }
    match (writer.process == reader.process, writer.device, reader.device) {
        (true, Some(from), Some(to)) if from != to => (Road::Copy, "one process, two devices"),
        (false, Some(from), Some(to)) if from != to => (Road::SlotsAndCopy, "two processes, two devices"),
        (true, Some(_), Some(_)) => (Road::Pointer, "one process, one device"),
        (false, Some(_), Some(_)) => (Road::Slots, "two processes, one device"),
        (true, _, None) => (Road::Pointer, "one process; the reader takes them where they are"),
        (false, _, None) => (Road::Slots, "two processes; the reader takes them where they are"),
        (true, None, _) => (
            Road::Pointer,
            "one process; copied where they are not on the reader's device",
        ),
        (false, None, _) => (
            Road::Slots,
            "two processes; copied where they are not on the reader's device",
        ),
    }
}

/// The roads of all values that carry tensors of a device, by value, and there by actor; the driver, who reads outputs, last.
pub fn roads(graph: &GraphIr) -> Vec<RoadPlan> {
    let site = |actor: &ActorIr| Site::actor(actor.process, actor.device);
    let sites: BTreeMap<ActorId, Site> = graph.actors.iter().map(|actor| (actor.id, site(actor))).collect();
    let carried = |value: &ValueId| graph.value(*value).is_some_and(|value| value.tensors.carried);
    let mut readers: BTreeSet<(ValueId, Option<ActorId>)> = BTreeSet::new();
    for task in &graph.tasks {
        let reads = GraphIr::reads(task).map(|(_, value)| value).filter(carried);
        readers.extend(reads.map(|value| (value, Some(task.actor))));
    }
    // The driver is no actor: after all of them, not before.
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().filter(carried).collect();
    let mut roads: Vec<RoadPlan> = Vec::new();
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
        roads.push(RoadPlan {
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
        Site::actor(ProcessId(process), device)
    }

    fn away(site: Site) -> Site {
        Site { host: 1, ..site }
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

    /// The whole table: every row of it, in both directions where that is another row.
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
                (Road::Copy, Road::SlotsAndCopy)
            } else {
                (Road::Pointer, Road::Slots)
            };
            assert_eq!(by(at(1, one), at(1, other)), within, "{one:?} {other:?}");
            assert_eq!(by(at(1, one), at(2, other)), between, "{one:?} {other:?}");
            assert_eq!(by(at(2, other), at(1, one)), between, "{one:?} {other:?}");
            assert_eq!(by(at(1, one), away(at(1, other))), Road::Nccl);
            let none = road(TensorsIr::default(), at(1, one), at(2, other)).0;
            assert_eq!(none, Road::Host);
        }
        assert_eq!(
            by(Site::DRIVER, at(0, Some(1))),
            Road::Pointer,
            "wherever the driver has them"
        );
    }
}
