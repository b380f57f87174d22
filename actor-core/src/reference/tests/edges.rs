//! References in messages of channels between processes, at random: written, read, skipped, left unread, and with deaths.
//! `RUNS` sets the number of runs and `SEED` the first seed.
#![allow(unsafe_code)] // makes a channel's memory

use std::collections::BTreeMap;
use std::mem::forget;

use selvedge_channels::{
    AnyOutlet, AnyValue, Arrival, ChannelError, Doorbell, Inlet, PayloadType, Provider, Route, Routes,
    SEGMENT_HEADER_BYTES, Segment, SharedReader, SharedSpec, SharedWriter, format,
};
use selvedge_objects::refs::RefError;

use super::super::edge::{EdgePeers, EdgeReferences};
use super::network::{TestMember, TestNetwork};
use super::*;
use crate::id::ProcessId;

/// A message: references in several places, and a field that is not always written.
#[derive(Clone, Serialize, Deserialize)]
struct Sheet {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<Ref<u64>>,
    rest: Vec<Ref<u64>>,
}

/// A random choice, with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, many: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % many
    }
}

/// A channel from the first member to all others.
struct TestEdge {
    outlet: Box<dyn AnyOutlet>,
    inlets: Vec<Option<Box<dyn AnyValue>>>,
    written: u64,
}

fn edge(members: &[TestMember], slots: u32) -> TestEdge {
    let spec = SharedSpec {
        slots,
        slot_bytes: 1000,
        readers: u32::try_from(members.len() - 1).unwrap(),
        max_bytes: 1 << 20,
    };
    let size = spec.size_bytes().unwrap();
    let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size).unwrap();
    // SAFETY: nobody else uses the new segment.
    let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap();
    format(&region, &spec).unwrap();
    let process = |index: usize| ProcessId(u32::try_from(index).unwrap());
    let peers = members.iter().enumerate();
    let peers = EdgePeers::of(peers.map(|(index, member)| (process(index), member.peer)));
    let references = |member: &TestMember| EdgeReferences::new(&member.table, peers.clone());
    let payload = PayloadType::of::<Sheet>();
    assert!(payload.has_records() && !PayloadType::of::<(u8, String)>().has_records());
    let bells = || members[1..].iter().map(|_| Doorbell::heap()).collect();
    let mut writer = SharedWriter::attach(region.clone(), &spec, bells()).unwrap();
    let readers = (1..members.len()).map(process);
    writer.make_records(references(&members[0]).writer(readers).unwrap());
    let routes = Routes {
        local: None,
        channels: vec![Route::Shared(writer)],
    };
    let inlet = |(index, member): (u32, &TestMember)| {
        let mut reader = SharedReader::attach(region.clone(), &spec, index, Doorbell::heap()).unwrap();
        reader.take_records(references(member).reader(process(0)).unwrap());
        Some(payload.value(Inlet::Shared(reader), 1).unwrap())
    };
    TestEdge {
        inlets: (0..).zip(&members[1..]).map(inlet).collect(),
        outlet: payload.outlet(routes).unwrap(),
        written: 0,
    }
}

impl TestEdge {
    fn write(&mut self, sheet: Sheet) -> Result<(), ChannelError> {
        self.outlet.typed_mut::<Sheet>().unwrap().stage(sheet);
        self.outlet.publish(self.written, &mut [])?;
        self.written += 1;
        Ok(())
    }

    /// Reads message `number`, and skips those before it; `None` if it has not come.
    fn read(&mut self, reader: usize, number: u64) -> Option<Sheet> {
        let value = self.inlets[reader].as_mut()?.typed_mut::<Sheet>().unwrap();
        let erased: &mut dyn AnyValue = value;
        if erased.receive(number).unwrap() == Arrival::Nothing {
            return None;
        }
        let in_place = value.get().unwrap().text.clone();
        let sheet = value.take().unwrap();
        value.read_done().unwrap();
        assert_eq!((&sheet.text, &in_place), (&number.to_string(), &sheet.text));
        Some(sheet)
    }
}

fn run(seed: u64) {
    let random = &mut Random(seed);
    let network = TestNetwork::default();
    let members = [1, 2, 3].map(|number| network.join(number));
    let mut edge = edge(&members, 1 + u32::try_from(random.below(4)).unwrap());
    let mut own: Vec<Ref<u64>> = vec![members[0].put(0)];
    for (number, owner) in (1..).zip(&members[1..]) {
        let there = owner.put(number);
        owner.give(&there, &members[0]);
        let kept = members[0].keep_at(owner);
        network.settle();
        owner.fill(&kept, ObjectValue::wire(number));
        own.push(kept);
        own.extend(members[0].taken());
    }
    let values: BTreeMap<_, _> = own.iter().map(|it| (it.id(), it.owner())).collect();
    let mut next = [0_u64; 2];
    let mut held: [Vec<Ref<u64>>; 2] = Default::default();
    let mut dead = None;
    for _ in 0..200 {
        let (reader, many) = (random.below(2), random.below(4));
        match random.below(16) {
            0..5 => {
                let mut some = || (!own.is_empty()).then(|| own[random.below(own.len())].clone());
                let sheet = Sheet {
                    text: edge.written.to_string(),
                    first: some().filter(|_| many > 0),
                    rest: (1..many).filter_map(|_| some()).collect(),
                };
                if matches!(edge.outlet.has_space(), Ok(true)) {
                    match edge.write(sheet) {
                        Ok(()) => {}
                        Err(ChannelError::Record(_) | ChannelError::Closed) if dead.is_some() => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            5..10 if dead != Some(reader) => {
                let skipped = u64::try_from(random.below(2)).unwrap();
                if next[reader] + skipped < edge.written
                    && let Some(sheet) = edge.read(reader, next[reader] + skipped)
                {
                    next[reader] += skipped + 1;
                    held[reader].extend(sheet.first.into_iter().chain(sheet.rest));
                }
            }
            10 => own.truncate(own.len().saturating_sub(random.below(2))),
            11 => held[reader].clear(),
            12 if random.below(8) == 0 && dead != Some(reader) => {
                edge.inlets[reader] = None;
            }
            13 if random.below(16) == 0 && dead.is_none() => {
                dead = Some(reader);
                forget((edge.inlets[reader].take(), std::mem::take(&mut held[reader])));
                network.kill(&members[reader + 1]);
            }
            14 => network.settle(),
            _ => while network.step() && random.below(4) > 0 {},
        }
    }
    network.settle();
    for (reader, held) in held.iter().enumerate() {
        for reference in held {
            assert!(values.contains_key(&reference.id()));
            if dead.is_none() {
                assert!(
                    reference.confirmed(AT_ONCE).unwrap(),
                    "{reader} holds {reference:?}"
                );
            }
        }
    }
    if random.below(2) == 0 {
        drop((edge.outlet, own));
        network.settle();
        drop((edge.inlets, held));
    } else {
        drop((edge.inlets, held));
        drop((edge.outlet, own));
    }
    network.settle();
    let living = members.iter().enumerate();
    let living = living.filter(|(index, _)| dead != index.checked_sub(1) || *index == 0);
    assert_empty(&living.map(|(_, member)| member).collect::<Vec<_>>());
}

#[test]
fn references_in_messages_are_settled_once_whatever_becomes_of_the_messages() {
    let setting = |name: &str, default: u64| {
        let set = std::env::var(name).ok();
        set.and_then(|set| set.parse().ok()).unwrap_or(default)
    };
    let seed = setting("SEED", u64::from(std::process::id()) << 16);
    for seed in seed..seed + setting("RUNS", 300) {
        println!("SEED={seed} RUNS=1");
        run(seed);
    }
}

#[test]
fn rref_23_an_owner_lists_the_readers_of_a_message_before_it_is_sent() {
    let (network, a, b, c) = three();
    let members = [a, b, c];
    let mut edge = edge(&members, 4);
    let x = members[0].put(7_u64);
    let sheet = |rest| Sheet {
        text: "0".to_owned(),
        first: None,
        rest,
    };
    edge.write(sheet(vec![x.clone(), x])).unwrap();
    assert_eq!(
        members[0].table.stats().forks,
        4,
        "two references for each of two readers"
    );
    let read = edge.read(0, 0).unwrap();
    assert_eq!(*fetched(&network, &read.rest[1]).unwrap(), 7);
    drop((read, edge));
    network.settle();
    assert_empty(&[&members[0], &members[1], &members[2]]);
}

#[test]
fn a_reference_that_cannot_be_passed_refuses_the_message_and_no_more() {
    let (network, a, b, c) = three();
    let members = [a, b, c];
    let mut edge = edge(&members, 4);
    let other = TestNetwork::default().join(1);
    let (own, foreign) = (members[0].put(1_u64), other.put(2_u64));
    let lost: Ref<u64> = {
        let there = members[2].put(3);
        members[2].give(&there, &members[0]);
        network.settle();
        members[0].taken().remove(0)
    };
    let sheet = |rest| Sheet {
        text: "0".to_owned(),
        first: Some(own.clone()),
        rest,
    };
    let refused = |written: Result<(), ChannelError>| match written {
        Err(error @ ChannelError::Record(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let why = refused(edge.write(sheet(vec![foreign.clone()])));
    assert_eq!(why, RefError::Foreign(foreign.id()).to_string());
    forget(edge.inlets.remove(1));
    network.kill(&members[2]);
    let why = refused(edge.write(sheet(vec![lost.clone()])));
    assert_eq!(why, RefError::Lost(lost.id()).to_string());
    let written = edge.write(sheet(vec![own.clone()]));
    assert!(matches!(written, Err(ChannelError::Closed)), "a reader is dead");
    drop((edge, own, lost));
    network.settle();
    assert_empty(&[&members[0], &members[1]]);
}
