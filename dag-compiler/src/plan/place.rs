//! Placement: derives the channels from the writer and the readers of each value, and the groups of ranks from the
//! collectives.
//!
//! All readers on one lane share one end (the cached channel, CACHE-01). If the writer's lane is the only one in its
//! process that reads the value, the channel is a local slot. Otherwise the readers in the writer's process share a
//! ring, including the writer's own lane if it reads too. Readers in other processes of the writer's host share a ring in
//! shared memory. The readers on each other host share a mirror of that ring there.
//!
//! O(tasks + edges log lanes), and at worst edges x lanes moves of 16 bytes, because the lanes that read a value are a
//! sorted list.

use selvedge_core::{ActorId, Address, HostId, IdMap};

use crate::ir::{
    BufferIr, ChannelId, ChannelKind, ChannelPlan, CommunicatorPlan, GraphIr, LaneValue, Origin, RankPlan,
    Settings, ValueId, Writer,
};

/// The channels, and the values that each lane reads from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The channels, by id.
    pub channels: Vec<ChannelPlan>,
    /// The values that each lane reads, by value id.
    pub values: IdMap<Address, Vec<LaneValue>>,
}

/// The way in which a lane reads a value.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// The number of reads.
    reads: u32,
    /// True if one of the reads asks for a rendezvous.
    meets: bool,
}

/// The readings of one value, sorted by the place of the reader.
#[derive(Clone, Default)]
struct Reads(Vec<(Address, Reading)>);

impl Reads {
    fn at(&mut self, place: Address) -> Option<&mut Reading> {
        let found = self.0.binary_search_by_key(&place, |(place, _)| *place);
        let index = found.unwrap_or_else(|index| {
            self.0.insert(index, (place, Reading::default()));
            index
        });
        self.0.get_mut(index).map(|(_, reading)| reading)
    }

    /// Returns the readers at such places.
    fn at_places(&self, is_there: impl Fn(Address) -> bool) -> Vec<(Address, Reading)> {
        let readings = self.0.iter().copied();
        readings.filter(|(reader, _)| is_there(*reader)).collect()
    }

    /// Returns the hosts of the readers, but for one.
    fn hosts_but(&self, own: HostId) -> Vec<HostId> {
        let hosts = self.0.iter().map(|(reader, _)| reader.host);
        let mut hosts: Vec<HostId> = hosts.filter(|host| *host != own).collect();
        hosts.dedup();
        hosts
    }
}

/// Decides the channels of every value.
pub fn place(graph: &GraphIr, settings: &Settings) -> Placement {
    let places = graph.places();
    let mut reads: Vec<Reads> = vec![Reads::default(); graph.values.len()];
    for task in &graph.tasks {
        let Some(place) = places.get(&task.actor) else {
            continue;
        };
        for (position, value) in GraphIr::reads(task) {
            if let Some(reading) = reads.get_mut(value.index()).and_then(|it| it.at(*place)) {
                reading.reads += 1;
                reading.meets |= task.meets_at(position);
            }
        }
    }
    for output in &graph.outputs {
        if let Some(reading) = reads
            .get_mut(output.index())
            .and_then(|it| it.at(Address::DRIVER))
        {
            reading.reads += 1;
        }
    }
    let mut placement = Placement::default();
    for (index, (value, reads)) in graph.values.iter().zip(&reads).enumerate() {
        let writer = match value.origin {
            Origin::Input(_) => Writer::Submit,
            Origin::Task(task) => {
                let place = graph.task(task).and_then(|task| places.get(&task.actor));
                Writer::Lane(place.copied().unwrap_or(Address::DRIVER))
            }
        };
        placement.add(ValueId(index as u32), value.buffer, writer, reads, settings);
    }
    placement
}

impl Placement {
    /// Adds the channels of one value.
    fn add(&mut self, value: ValueId, asked: BufferIr, writer: Writer, reads: &Reads, settings: &Settings) {
        let from = writer.address();
        let hosts = reads.hosts_but(from.host);
        let mut add = |kind, readers: Vec<(Address, Reading)>, mirrors: usize| {
            if !readers.is_empty() || mirrors > 0 {
                let size = ChannelSize::of(kind, asked, settings);
                self.channel((value, kind, writer), &readers, size, mirrors);
            }
        };
        let near = reads.at_places(|reader| reader.is_near(from));
        let own = matches!(near.as_slice(), [(reader, _)] if Writer::Lane(*reader) == writer);
        add(
            if own {
                ChannelKind::Local
            } else {
                ChannelKind::Ring
            },
            near,
            0,
        );
        let beside = reads.at_places(|reader| reader.host == from.host && !reader.is_near(from));
        add(ChannelKind::Shared, beside, hosts.len());
        for host in hosts {
            add(
                ChannelKind::Mirror,
                reads.at_places(|reader| reader.host == host),
                0,
            );
        }
    }

    /// Adds one channel.
    fn channel(
        &mut self,
        (value, kind, writer): (ValueId, ChannelKind, Writer),
        readers: &[(Address, Reading)],
        size: ChannelSize,
        mirrors: usize,
    ) {
        let channel = ChannelId(self.channels.len() as u32);
        for (position, (reader, reading)) in (0u16..).zip(readers) {
            let across = matches!(writer, Writer::Lane(writer) if writer != *reader);
            let value = LaneValue {
                value,
                channel,
                reader: position,
                reads: reading.reads,
                meets: reading.meets && across,
            };
            self.values.push_to(*reader, value);
        }
        self.channels.push(ChannelPlan {
            id: channel,
            value,
            kind,
            writer,
            readers: readers.iter().map(|(reader, _)| *reader).collect(),
            slots: size.slots,
            slot_bytes: size.slot_bytes,
            max_bytes: size.max_bytes,
            mirrors: mirrors as u32,
        });
    }
}

/// The number of slots of a channel, and the bytes of a slot at the start and at most.
struct ChannelSize {
    slots: u32,
    slot_bytes: u64,
    max_bytes: u64,
}

impl ChannelSize {
    fn of(kind: ChannelKind, asked: BufferIr, settings: &Settings) -> Self {
        let slots = asked.slots.unwrap_or(settings.slots);
        let bytes = asked.slot_bytes.unwrap_or(settings.slot_bytes);
        let (slots, slot_bytes, max_bytes) = match kind {
            ChannelKind::Local => (1, 0, 0),
            ChannelKind::Ring => (slots, 0, 0),
            ChannelKind::Shared | ChannelKind::Mirror => (slots, bytes, settings.max_bytes.max(bytes)),
        };
        ChannelSize {
            slots,
            slot_bytes,
            max_bytes,
        }
    }
}

/// Returns the groups of ranks, in the order of the first collective of each group. There is one group for each list of
/// actors, however many collectives these actors do together (COMM-18). The ranks of one group run their collectives in
/// the one linear order, so operations are matched by their number.
pub(crate) fn groups(graph: &GraphIr) -> Vec<CommunicatorPlan> {
    let places = graph.places();
    let mut known: Vec<Vec<ActorId>> = Vec::new();
    for collective in &graph.collectives {
        let actors = graph.ranks(collective);
        if !known.contains(&actors) {
            known.push(actors);
        }
    }
    let rank = |actor: &ActorId| {
        let (actor, address) = (*actor, *places.get(actor)?);
        Some(RankPlan { actor, address })
    };
    let group = |actors: &Vec<ActorId>| CommunicatorPlan {
        ranks: actors.iter().filter_map(rank).collect(),
    };
    known.iter().map(group).collect()
}
