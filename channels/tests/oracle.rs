//! Rings and values against a plain oracle, over the heap (also under Miri) and over shared memory.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::VecDeque;

use proptest::prelude::*;
use selvedge_channels::{
    ChannelError, Doorbell, Fault, FaultKind, Inlet, Outlet, PayloadType, Provider, Readiness, Routes,
    SEGMENT_HEADER_BYTES, Segment, SharedReader, SharedSpec, SharedWriter, Value, format, ring,
};

/// Miri cannot map a memfd, so it gets the heap, where nothing can grow.
const PROVIDER: Provider = if cfg!(miri) {
    Provider::Heap
} else {
    Provider::Memfd
};
const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

fn bell() -> Doorbell {
    Doorbell::heap()
}

fn spec(slots: u32, slot_bytes: u64, readers: u32) -> SharedSpec {
    SharedSpec {
        slots,
        slot_bytes,
        readers,
        max_bytes: 1 << 30,
    }
}

fn shared(spec: &SharedSpec) -> (SharedWriter, Vec<SharedReader>) {
    let size = spec.size_bytes().unwrap();
    let segment = Segment::create(PROVIDER, SEGMENT_HEADER_BYTES + size).unwrap();
    let region = segment.region(SEGMENT_HEADER_BYTES, size).unwrap();
    format(&region, spec).unwrap();
    let bells = (0..spec.readers).map(|_| bell()).collect();
    let writer = SharedWriter::attach(region.clone(), spec, bell(), bells).unwrap();
    let reader = |index| SharedReader::attach(region.clone(), spec, index, bell()).unwrap();
    (writer, (0..spec.readers).map(reader).collect())
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    Fault,
    Read(usize),
    Skip(usize),
}

fn steps(readers: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<u32>().prop_map(Step::Write),
        1 => Just(Step::Fault),
        5 => (0..readers).prop_map(Step::Read),
        1 => (0..readers).prop_map(Step::Skip),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 30 } else { 200 })
}

/// What a bounded queue with N readers does.
struct Oracle {
    slots: usize,
    queues: Vec<VecDeque<Option<u32>>>,
}

impl Oracle {
    fn write(&mut self, value: Option<u32>) -> bool {
        if self.queues.iter().any(|queue| queue.len() >= self.slots) {
            return false;
        }
        self.queues.iter_mut().for_each(|queue| queue.push_back(value));
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn buf_03_a_ring_is_a_bounded_queue_per_reader(slots in 1..5usize, all in steps(3)) {
        let (mut writer, mut readers) = ring::<u32>(slots, bell(), vec![bell(), bell(), bell()]).unwrap();
        let mut oracle = Oracle { slots, queues: vec![VecDeque::new(); 3] };
        for step in all {
            match step {
                Step::Write(value) => prop_assert_eq!(writer.try_write(Ok(value)).is_ok(), oracle.write(Some(value))),
                Step::Fault => prop_assert_eq!(writer.try_write(Err(Fault::cancelled())).is_ok(), oracle.write(None)),
                Step::Read(reader) => {
                    let found = readers[reader].take().map(Result::ok);
                    prop_assert_eq!(found, oracle.queues[reader].pop_front());
                }
                Step::Skip(reader) => {
                    readers[reader].release();
                    oracle.queues[reader].pop_front();
                }
            }
        }
    }

    #[test]
    fn buf_03_a_shared_ring_is_a_bounded_queue_per_reader(slots in 1..5u32, all in steps(2)) {
        let (mut writer, mut readers) = shared(&spec(slots, 1000, 2));
        let mut oracle = Oracle { slots: slots as usize, queues: vec![VecDeque::new(); 2] };
        for step in all {
            match step {
                Step::Write(value) => prop_assert_eq!(writer.try_write(&value).unwrap(), oracle.write(Some(value))),
                Step::Fault => prop_assert_eq!(writer.try_write_fault(&Fault::cancelled()).unwrap(), oracle.write(None)),
                Step::Read(reader) => {
                    let current = readers[reader].current().unwrap();
                    let found = current.map(|m| m.ok().map(|bytes| selvedge_channels::decode::<u32>(bytes).unwrap()));
                    prop_assert_eq!(found, oracle.queues[reader].pop_front());
                    readers[reader].release().unwrap();
                }
                Step::Skip(reader) => {
                    readers[reader].release().unwrap();
                    oracle.queues[reader].pop_front();
                }
            }
        }
    }

    #[cfg(not(miri))] // growth needs memfd
    #[test]
    fn buf_03_payloads_of_all_sizes_keep_their_bytes(sizes in proptest::collection::vec(0..20_000usize, 1..60)) {
        let (mut writer, mut readers) = shared(&spec(3, 1000, 1));
        for (seed, len) in sizes.into_iter().enumerate() {
            let sent: Vec<u8> = (0..len).map(|i| (i ^ seed) as u8).collect();
            prop_assert!(writer.try_write(&sent).unwrap());
            let bytes = readers[0].current().unwrap().unwrap().unwrap();
            prop_assert_eq!(&selvedge_channels::decode::<Vec<u8>>(bytes).unwrap(), &sent);
            readers[0].release().unwrap();
        }
    }
}

#[test]
fn buf_02_k_writes_succeed_without_a_read_and_the_next_does_not() {
    let (mut writer, mut readers) = ring::<u8>(5, bell(), vec![bell()]).unwrap();
    for message in 0..5 {
        assert!(writer.try_write(Ok(message)).is_ok());
    }
    // BUF-05: a refused write changes nothing and gives the message back.
    assert_eq!(writer.try_write(Ok(9)).unwrap_err().unwrap(), 9);
    assert_eq!(readers[0].take().unwrap().unwrap(), 0);
    assert!(writer.try_write(Ok(5)).is_ok());
    let rest: Vec<u8> = std::iter::from_fn(|| readers[0].take())
        .map(Result::unwrap)
        .collect();
    assert_eq!(rest, [1, 2, 3, 4, 5]);
    assert!(readers[0].take().is_none(), "an empty read changes nothing");
    assert_eq!(readers[0].position(), 6);
}

#[test]
fn intra_01_a_value_moves_by_pointer() {
    let (mut writer, mut readers) = ring::<Vec<u8>>(1, bell(), vec![bell()]).unwrap();
    let value = vec![1, 2, 3];
    let address = value.as_ptr();
    writer.try_write(Ok(value)).unwrap();
    let taken = readers[0].take().unwrap().unwrap();
    assert_eq!(taken.as_ptr(), address);
}

#[test]
fn cache_02_memory_returns_with_the_last_read() {
    let counted = std::sync::Arc::new(());
    for reads in 1..4 {
        let (mut writer, mut readers) = ring::<Shared>(1, bell(), vec![bell()]).unwrap();
        writer.try_write(Ok(Shared(Some(counted.clone())))).unwrap();
        let inlet = Inlet::Ring(Box::new(readers.remove(0)));
        let mut value = PayloadType::of::<Shared>().value(inlet, reads).unwrap();
        assert_eq!(value.fill(0).unwrap(), Readiness::Ready);
        for read in 0..reads {
            assert_eq!(std::sync::Arc::strong_count(&counted), 2, "before read {read}");
            value.read_done().unwrap();
        }
        assert_eq!(std::sync::Arc::strong_count(&counted), 1, "CACHE-02");
        assert!(
            matches!(value.read_done(), Err(ChannelError::NoValue)),
            "CACHE-04"
        );
        assert!(writer.has_space());
    }
    assert!(
        PayloadType::of::<u8>().value(Inlet::Local, 0).is_err(),
        "CACHE-05: no reads"
    );
}

/// A payload that counts its copies.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Shared(#[serde(skip)] Option<std::sync::Arc<()>>);

#[test]
fn cache_01_one_write_is_read_many_times_and_a_second_write_waits() {
    let mut value = PayloadType::of::<u32>().value(Inlet::Local, 2).unwrap();
    let typed = value.as_any_mut().downcast_mut::<Value<u32>>().unwrap();
    assert!(
        matches!(typed.get(), Err(ChannelError::NoValue)),
        "CACHE-04: an error, not a hang"
    );
    typed.put(0, Ok(7)).unwrap();
    assert_eq!((*typed.get().unwrap(), *typed.get().unwrap()), (7, 7));
    assert!(
        matches!(typed.put(1, Ok(8)), Err(ChannelError::Unread)),
        "CACHE-05"
    );
    assert_eq!(typed.message().unwrap().unwrap(), 7);
    assert_eq!(typed.message().unwrap().unwrap(), 7);
    typed.put(1, Ok(8)).unwrap();
    assert_eq!(*typed.get().unwrap(), 8);
}

#[test]
fn cache_06_a_closed_channel_says_so_after_the_last_value() {
    let (mut writer, mut readers) = ring::<u32>(2, bell(), vec![bell()]).unwrap();
    writer.try_write(Ok(1)).unwrap();
    drop(writer);
    let mut value = PayloadType::of::<u32>()
        .value(Inlet::Ring(Box::new(readers.remove(0))), 1)
        .unwrap();
    assert_eq!(value.fill(0).unwrap(), Readiness::Ready);
    value.read_done().unwrap();
    assert!(matches!(value.fill(1), Err(ChannelError::Closed)));

    let (mut writer, mut readers) = shared(&spec(2, 1000, 1));
    writer.try_write(&1u32).unwrap();
    writer.close();
    let mut value = PayloadType::of::<u32>()
        .value(Inlet::Shared(readers.remove(0)), 1)
        .unwrap();
    assert_eq!(value.fill(0).unwrap(), Readiness::Ready);
    value.read_done().unwrap();
    assert!(matches!(value.fill(1), Err(ChannelError::Closed)), "CHAN-06");
}

#[test]
fn rw_05_leftovers_of_earlier_executions_are_skipped() {
    for remote in [false, true] {
        let (mut write, inlet): (Box<dyn FnMut(u32)>, Inlet) = if remote {
            let (mut writer, mut readers) = shared(&spec(4, 1000, 1));
            (
                Box::new(move |v| assert!(writer.try_write(&v).unwrap())),
                Inlet::Shared(readers.remove(0)),
            )
        } else {
            let (mut writer, mut readers) = ring::<u32>(4, bell(), vec![bell()]).unwrap();
            (
                Box::new(move |v| writer.try_write(Ok(v)).unwrap()),
                Inlet::Ring(Box::new(readers.remove(0))),
            )
        };
        let mut value = PayloadType::of::<u32>().value(inlet, 2).unwrap();
        (0..4).for_each(&mut write);
        assert_eq!(value.fill(0).unwrap(), Readiness::Ready);
        value.read_done().unwrap();
        // One of two reads of execution 0 was given up, and 1 and 2 were never looked at.
        assert_eq!(value.fill(3).unwrap(), Readiness::Ready);
        assert_eq!(
            *value
                .as_any()
                .downcast_ref::<Value<u32>>()
                .unwrap()
                .get()
                .unwrap(),
            3
        );
    }
}

#[test]
fn comp_03_a_message_goes_to_every_route_or_to_none() {
    let (ring_writer, mut ring_readers) = ring::<u32>(1, bell(), vec![bell()]).unwrap();
    let (shared_writer, mut shared_readers) = shared(&spec(2, 1000, 1));
    let kind = PayloadType::of::<u32>();
    let mut values = vec![kind.value(Inlet::Local, 1).unwrap()];
    let routes = Routes {
        local: Some(0),
        ring: Some(Box::new(ring_writer)),
        shared: Some(shared_writer),
    };
    let mut outlet = kind.outlet(routes).unwrap();
    assert!(matches!(
        outlet.publish(0, &mut values),
        Err(ChannelError::NoValue)
    ));
    outlet
        .as_any_mut()
        .downcast_mut::<Outlet<u32>>()
        .unwrap()
        .stage(5);
    assert_eq!(outlet.publish(0, &mut values).unwrap(), Readiness::Ready);
    let local = values[0].as_any_mut().downcast_mut::<Value<u32>>().unwrap();
    assert_eq!(local.message().unwrap().unwrap(), 5);
    // RW-13: the ring is full, so nothing reaches the others either.
    outlet
        .as_any_mut()
        .downcast_mut::<Outlet<u32>>()
        .unwrap()
        .stage(6);
    assert_eq!(outlet.publish(1, &mut values).unwrap(), Readiness::Blocked);
    assert!(outlet.is_staged());
    shared_readers[0].release().unwrap();
    assert!(
        !shared_readers[0].ready().unwrap(),
        "the shared route got nothing"
    );
    assert_eq!(ring_readers[0].take().unwrap().unwrap(), 5);
    assert_eq!(outlet.publish(1, &mut values).unwrap(), Readiness::Ready);
    assert!(shared_readers[0].ready().unwrap());
}

#[test]
fn chan_07_faults_travel_as_values() {
    let (mut writer, mut readers) = shared(&spec(2, 1000, 1));
    let report = vec![7u8; 500];
    writer
        .try_write_fault(&Fault::failed(report.clone(), None))
        .unwrap();
    writer.try_write_fault(&Fault::cancelled()).unwrap();
    let fault = readers[0].current().unwrap().unwrap().unwrap_err();
    assert_eq!(
        (fault.kind(), fault.report()),
        (FaultKind::Failed, report.as_slice())
    );
    readers[0].release().unwrap();
    assert_eq!(
        readers[0].current().unwrap().unwrap().unwrap_err().kind(),
        FaultKind::Cancelled
    );
}

#[test]
fn chan_19_small_buffers_and_empty_shapes_are_refused() {
    assert!(matches!(
        spec(1, 999, 1).size_bytes(),
        Err(ChannelError::InvalidSpec {
            what: "buffer_bytes",
            ..
        })
    ));
    assert!(spec(0, 1000, 1).size_bytes().is_err());
    assert!(spec(1, 1000, 0).size_bytes().is_err());
    assert!(ring::<u8>(0, bell(), vec![bell()]).is_err());
    assert!(ring::<u8>(1, bell(), vec![]).is_err());
}

#[test]
fn chan_22_more_readers_than_declared_are_refused() {
    let spec = spec(1, 1000, 1);
    let size = spec.size_bytes().unwrap();
    let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size).unwrap();
    let region = segment.region(SEGMENT_HEADER_BYTES, size).unwrap();
    assert!(
        SharedReader::attach(region.clone(), &spec, 0, bell()).is_err(),
        "not formatted"
    );
    format(&region, &spec).unwrap();
    assert!(SharedReader::attach(region.clone(), &spec, 0, bell()).is_ok());
    assert!(matches!(
        SharedReader::attach(region, &spec, 1, bell()),
        Err(ChannelError::Corrupt { .. })
    ));
}

#[test]
fn chan_23_a_held_value_blocks_the_writer_and_nothing_else() {
    let (mut writer, mut readers) = shared(&spec(1, 1000, 1));
    assert!(writer.try_write(&vec![1.5f32; 50]).unwrap());
    let mut value = PayloadType::of::<Vec<f32>>()
        .value(Inlet::Shared(readers.remove(0)), 1)
        .unwrap();
    value.fill(0).unwrap();
    let slice = value
        .as_any()
        .downcast_ref::<Value<Vec<f32>>>()
        .unwrap()
        .slice()
        .unwrap();
    assert!(!writer.try_write(&vec![2.5f32; 50]).unwrap());
    assert_eq!(slice, vec![1.5f32; 50]);
    value.read_done().unwrap();
    assert!(writer.try_write(&vec![2.5f32; 50]).unwrap());
}

#[test]
fn chan_25_a_reader_that_is_gone_does_not_block_the_writer() {
    let (mut writer, mut readers) = shared(&spec(1, 1000, 2));
    assert!(writer.try_write(&1u8).unwrap());
    assert!(!writer.try_write(&2u8).unwrap());
    readers[0].release().unwrap();
    drop(readers.pop());
    assert!(writer.try_write(&2u8).unwrap());
}

#[cfg(not(miri))] // memfd
mod memory {
    use super::*;

    fn descriptors() -> usize {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        links
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|to| {
                to.to_string_lossy().contains("grown-test") || to.to_string_lossy().contains("memfd:selvedge")
            })
            .count()
    }

    #[test]
    fn chan_17_growth_is_geometric_and_old_memory_is_given_back() {
        let (mut writer, mut readers) = shared(&spec(2, 1000, 1));
        let before = descriptors();
        for len in (1..200).map(|step| step * 1000) {
            assert!(writer.try_write(&vec![1u8; len]).unwrap());
            assert_eq!(
                readers[0].current().unwrap().unwrap().unwrap().len() / 1000,
                len / 1000
            );
            readers[0].release().unwrap();
            assert!(
                descriptors() <= before + 3,
                "{} descriptors after {len} bytes",
                descriptors()
            );
        }
        drop((writer, readers));
        assert!(descriptors() < before);
    }

    #[test]
    fn chan_16_the_cap_is_a_typed_error_and_the_channel_goes_on() {
        let spec = SharedSpec {
            max_bytes: 5000,
            ..spec(2, 1000, 1)
        };
        let (mut writer, mut readers) = shared(&spec);
        assert!(matches!(
            writer.try_write(&vec![0u8; 6000]),
            Err(ChannelError::TooLarge { max_bytes: 5000, .. })
        ));
        assert!(writer.try_write(&vec![3u8; 4000]).unwrap());
        assert_eq!(
            selvedge_channels::decode::<Vec<u8>>(readers[0].current().unwrap().unwrap().unwrap()).unwrap(),
            vec![3u8; 4000]
        );
    }

    #[test]
    fn chan_24_a_segment_is_opened_by_its_id_and_a_wrong_id_is_refused() {
        let segment = Segment::create(Provider::Memfd, 4096).unwrap();
        let id = segment.id().unwrap();
        let other = Segment::open(&id).unwrap();
        segment
            .region(64, 64)
            .unwrap()
            .atomic_u64(0)
            .unwrap()
            .store(5, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            other
                .region(64, 64)
                .unwrap()
                .atomic_u64(0)
                .unwrap()
                .load(std::sync::atomic::Ordering::SeqCst),
            5
        );
        for wrong in [
            selvedge_channels::SegmentId {
                nonce: id.nonce ^ 1,
                ..id.clone()
            },
            selvedge_channels::SegmentId {
                len_bytes: 8192,
                ..id.clone()
            },
            selvedge_channels::SegmentId {
                fd: 9999,
                ..id.clone()
            },
            selvedge_channels::SegmentId { pid: u32::MAX, ..id },
        ] {
            assert!(Segment::open(&wrong).is_err(), "{wrong:?}");
        }
    }
}
