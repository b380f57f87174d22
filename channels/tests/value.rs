//! The ends that a lane works with: cached reading (CACHE), composite writing (COMP), in one process (INTRA) and
//! across.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use selvedge_channels::{
    AnyOutlet, AnyValue, Arrival, Berth, ChannelError, Culprit, Doorbell, End, Fault, FaultKind, Inlet,
    Local, PayloadType, Provider, Readiness, Route, Routes, SharedReader, SharedSpec, SharedWriter, Tensor,
    Value, Wire, encode, ring, ring_of_one, shared,
};
use support::{Bells, region, spec};

/// The outlet of one output, and the inlets of its readers.
struct Wiring {
    outlet: Box<dyn AnyOutlet>,
    inlets: Vec<Inlet>,
}

/// Builds a composite outlet with a ring, a shared ring, or both, with one reader each.
fn wire<T: Wire>(slots: usize, local: Option<usize>, ring: bool, shared: Option<SharedSpec>) -> Wiring {
    let kind = PayloadType::of::<T>();
    let mut inlets = Vec::new();
    let ring = ring.then(|| {
        let (writer, readers) = kind
            .ring(slots, Doorbell::heap(), vec![Doorbell::heap()])
            .unwrap();
        inlets.extend(readers.into_iter().map(Inlet::Ring));
        writer
    });
    let shared = shared.map(|spec| {
        let provider = if cfg!(miri) {
            Provider::Heap
        } else {
            Provider::Memfd
        };
        let (_, region) = region(provider, &spec);
        let bells = Bells::new(1);
        let reader = SharedReader::attach(region.clone(), &spec, 0, bells.writer.clone()).unwrap();
        inlets.push(Inlet::Shared(reader));
        SharedWriter::attach(region, &spec, bells.readers).unwrap()
    });
    let channels = ring.map(Route::Ring).into_iter().chain(shared.map(Route::Shared));
    let channels = channels.collect();
    let outlet = kind.outlet(Routes { local, channels }).unwrap();
    Wiring { outlet, inlets }
}

fn stage<T: Wire>(outlet: &mut Box<dyn AnyOutlet>, value: T) {
    outlet.typed_mut::<T>().unwrap().stage(value);
}

fn typed<T: Wire>(value: &mut Box<dyn AnyValue>) -> &mut Value<T> {
    value.typed_mut().unwrap()
}

fn value<T: Wire>(inlet: Inlet, reads: u32) -> Box<dyn AnyValue> {
    PayloadType::of::<T>().value(inlet, reads).unwrap()
}

/// The outlet of a route, and the values of the lane that reads.
type Wired = (Box<dyn AnyOutlet>, Vec<Box<dyn AnyValue>>);

/// Each kind of route, with one reader that reads a value `reads` times.
fn every_route<T: Wire>(reads: u32) -> Vec<Wired> {
    let local = (
        wire::<T>(2, Some(0), false, None).outlet,
        vec![value::<T>(Inlet::Local(Local), reads)],
    );
    let wired = [
        wire::<T>(2, None, true, None),
        wire::<T>(2, None, false, Some(spec(2, 1))),
    ];
    let wired = wired.into_iter().map(|it| {
        let values = it
            .inlets
            .into_iter()
            .map(|inlet| value::<T>(inlet, reads))
            .collect();
        (it.outlet, values)
    });
    std::iter::once(local).chain(wired).collect()
}

#[test]
fn cache_01_one_write_is_read_by_every_task_of_the_lane() {
    for (mut outlet, mut values) in every_route::<String>(3) {
        for execution in 0..5 {
            stage(&mut outlet, format!("value {execution}"));
            assert_eq!(outlet.publish(execution, &mut values).unwrap(), Readiness::Ready);
            for _ in 0..3 {
                assert_eq!(values[0].receive(execution).unwrap(), Arrival::Value);
                let value = typed::<String>(&mut values[0]);
                assert_eq!(value.get().unwrap(), &format!("value {execution}"));
                assert_eq!(value.text().unwrap(), format!("value {execution}"));
                value.read_done().unwrap();
            }
            assert_eq!(values[0].receive(execution + 1).unwrap(), Arrival::Nothing);
        }
    }
}

thread_local! {
    static DECODED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A value that counts its decodings on this thread.
#[derive(Clone, serde::Serialize)]
struct Read(Vec<u64>);

impl<'de> serde::Deserialize<'de> for Read {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.set(DECODED.get() + 1);
        serde::Deserialize::deserialize(deserializer).map(Read)
    }
}

#[test]
fn cache_01_however_many_read_a_value_it_is_decoded_once() {
    let Wiring { mut outlet, inlets } = wire::<Read>(2, None, false, Some(spec(2, 1)));
    let mut values: Vec<_> = inlets.into_iter().map(|inlet| value::<Read>(inlet, 3)).collect();
    for execution in 0..3 {
        stage(&mut outlet, Read(vec![execution; 5]));
        assert_eq!(outlet.publish(execution, &mut []).unwrap(), Readiness::Ready);
        assert_eq!(values[0].receive(execution).unwrap(), Arrival::Value);
        DECODED.set(0);
        for _ in 0..3 {
            let value = typed::<Read>(&mut values[0]);
            assert_eq!(value.get().unwrap().0, [execution; 5]);
            assert_eq!(value.get().unwrap().0, [execution; 5]);
            value.read_done().unwrap();
        }
        assert_eq!(DECODED.get(), 1);
    }
}

/// A value that counts its live instances.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(alive))
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(&self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl serde::Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> serde::Deserialize<'de> for Counted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer)?;
        Ok(Counted::new(&alive()))
    }
}

thread_local! {
    static ALIVE: Arc<AtomicUsize> = Arc::default();
}

/// The number of a test's live values, including those that it decodes.
fn alive() -> Arc<AtomicUsize> {
    ALIVE.with(Arc::clone)
}

#[test]
fn cache_02_after_the_last_read_the_value_is_gone() {
    let alive = alive();
    for (mut outlet, mut values) in every_route::<Counted>(2) {
        stage(&mut outlet, Counted::new(&alive));
        outlet.publish(0, &mut values).unwrap();
        values[0].receive(0).unwrap();
        for _ in 0..2 {
            typed::<Counted>(&mut values[0]).get().unwrap();
            assert_eq!(alive.load(Ordering::Relaxed), 1, "until the last read");
            values[0].read_done().unwrap();
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        assert!(matches!(values[0].read_done(), Err(ChannelError::NoValue)));
    }
}

#[test]
fn cache_06_what_is_held_goes_with_its_end_and_when_it_is_given_back() {
    let alive = alive();
    for (mut outlet, mut values) in every_route::<Counted>(2) {
        for execution in 0..2 {
            stage(&mut outlet, Counted::new(&alive));
            outlet.publish(execution, &mut values).unwrap();
            assert_eq!(values[0].receive(execution).unwrap(), Arrival::Value);
            typed::<Counted>(&mut values[0]).get().unwrap();
            values[0].release().unwrap();
            assert_eq!(alive.load(Ordering::Relaxed), 0, "given back");
        }
        stage(&mut outlet, Counted::new(&alive));
        outlet.publish(2, &mut values).unwrap();
        assert_eq!(values[0].receive(2).unwrap(), Arrival::Value);
        outlet.close();
        // A held value can still be read, and no value follows it.
        values[0].read_done().unwrap();
        values[0].read_done().unwrap();
        stage(&mut outlet, Counted::new(&alive));
        let _ = outlet.publish(3, &mut values);
        drop((outlet, values));
        assert_eq!(alive.load(Ordering::Relaxed), 0, "gone with its end");
    }
}

#[test]
fn every_message_of_a_ring_is_dropped_once_whoever_goes_first() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut random = 1u64;
    let mut below = |bound: u64| {
        // A linear congruential generator (Knuth's MMIX), with the same seed in every run.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for _ in 0..if cfg!(miri) { 40 } else { 4000 } {
        let readers = 1 + below(3) as usize;
        let bells = vec![Doorbell::heap(); readers];
        let (writer, ends) = ring::<Counted>(1 + below(4) as usize, Doorbell::heap(), bells).unwrap();
        let mut writer = Some(writer);
        let mut ends: Vec<_> = ends.into_iter().map(Some).collect();
        for _ in 0..below(40) {
            let reader = below(readers as u64) as usize;
            match (below(12), &mut writer, &mut ends[reader]) {
                (0..5, Some(writer), _) => drop(writer.try_write(Ok(Counted::new(&alive)))),
                (5..8, _, Some(reader)) => drop(reader.take()),
                (8, _, Some(reader)) => reader.release(),
                (9, _, Some(reader)) => drop(reader.current().cloned()),
                (10, _, reader) => *reader = None,
                (11, writer, _) if below(4) == 0 => *writer = None,
                _ => {}
            }
        }
        if below(2) == 0 {
            drop(writer.take());
        }
        drop(ends);
        drop(writer);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}

/// A place to sleep whose sleeper cannot be woken.
struct Broken;

impl Berth for Broken {
    fn sleep(&self, _: Option<Instant>, _: &dyn Fn() -> bool) {}

    fn wake(&self) {
        std::panic::resume_unwind(Box::new("no wake-up"));
    }
}

#[test]
fn a_reader_whose_drop_ends_in_a_panic_leaves_each_message_to_be_dropped_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let bell = Doorbell::heap().with_berth(Arc::new(Broken));
    let (mut writer, reader) = ring_of_one::<Counted>(3, bell.clone(), Doorbell::heap()).unwrap();
    while writer.has_space() {
        writer.try_write(Ok(Counted::new(&alive))).unwrap();
    }
    // The writer sleeps until a slot is free, and the reader's first release wakes it.
    bell.announce();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(reader))).is_err());
    assert_eq!(alive.load(Ordering::Relaxed), 2);
    drop(writer);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// Sends `message` through a ring of one slot and polls it with the only reader. Returns the reader's value, and
/// whether the slot is free then.
fn looked_at<T: Wire>(message: T) -> (Box<dyn AnyValue>, bool) {
    let Wiring { mut outlet, inlets } = wire::<T>(1, None, true, None);
    let mut value = value::<T>(inlets.into_iter().next().unwrap(), 2);
    assert!(!value.try_receive(0), "nothing has been written");
    stage(&mut outlet, message);
    assert_eq!(outlet.publish(0, &mut []).unwrap(), Readiness::Ready);
    assert!(!value.try_receive(1), "it is not that of the second execution");
    assert!(value.try_receive(0) && value.try_receive(0), "it stays");
    let free = outlet.has_space().unwrap();
    (value, free)
}

#[test]
fn cache_02_a_small_value_leaves_its_slot_as_it_comes_and_others_after_the_last_read() {
    let (mut small, free) = looked_at(7_u64);
    assert!(free);
    assert_eq!(*typed::<u64>(&mut small).get().unwrap(), 7);
    small.read_done().unwrap();
    assert_eq!(typed::<u64>(&mut small).take().unwrap(), 7, "the last read");
    small.read_done().unwrap();
    assert!(small.is_empty());
    let (mut large, free) = looked_at([7_u64; 20]);
    assert!(!free);
    assert_eq!(typed::<[u64; 20]>(&mut large).get().unwrap()[19], 7);
    let (mut owning, free) = looked_at(vec![7_u8]);
    assert!(!free, "it may hold any amount of memory");
    assert_eq!(typed::<Vec<u8>>(&mut owning).get().unwrap(), &[7]);
}

#[test]
fn a_fault_does_not_arrive_as_a_value() {
    let Wiring { mut outlet, inlets } = wire::<u64>(1, None, true, None);
    let mut value = value::<u64>(inlets.into_iter().next().unwrap(), 1);
    outlet.stage_fault(Fault::cancelled());
    outlet.publish(0, &mut []).unwrap();
    assert!(!value.try_receive(0));
    assert_eq!(value.receive(0).unwrap(), Arrival::Fault);
}

#[test]
fn intra_01_the_object_itself_is_passed() {
    for (mut outlet, mut values) in every_route::<Vec<u64>>(1).into_iter().take(2) {
        let numbers = vec![1, 2, 3];
        let pointer = numbers.as_ptr();
        stage(&mut outlet, numbers);
        outlet.publish(0, &mut values).unwrap();
        values[0].receive(0).unwrap();
        let value = typed::<Vec<u64>>(&mut values[0]);
        assert_eq!(value.get().unwrap().as_ptr(), pointer);
        let taken = value.take().unwrap();
        assert_eq!(taken.as_ptr(), pointer, "the last read moves");
    }
}

#[test]
fn cache_07_only_the_last_read_takes_the_value_away() {
    for (mut outlet, mut values) in every_route::<Vec<u64>>(2) {
        stage(&mut outlet, vec![1u64, 2, 3]);
        outlet.publish(0, &mut values).unwrap();
        values[0].receive(0).unwrap();
        let value = typed::<Vec<u64>>(&mut values[0]);
        let mut first = value.take().unwrap();
        first[0] = 9;
        value.read_done().unwrap();
        assert_eq!(value.get().unwrap(), &[1, 2, 3]);
        assert_eq!(value.take().unwrap(), [1, 2, 3]);
        value.read_done().unwrap();
        assert!(matches!(value.get(), Err(ChannelError::NoValue)));
    }
}

#[test]
fn intra_04_several_readers_of_one_ring_share_one_object() {
    let kind = PayloadType::of::<Vec<u8>>();
    let (writer, readers) = kind.ring(1, Doorbell::heap(), vec![Doorbell::heap(); 3]).unwrap();
    let mut outlet = kind
        .outlet(Routes {
            local: None,
            channels: vec![Route::Ring(writer)],
        })
        .unwrap();
    let numbers = vec![1, 2, 3];
    let pointer = numbers.as_ptr();
    stage(&mut outlet, numbers);
    outlet.publish(0, &mut []).unwrap();
    let mut values: Vec<_> = readers
        .into_iter()
        .map(|it| value::<Vec<u8>>(Inlet::Ring(it), 1))
        .collect();
    for value in &mut values {
        value.receive(0).unwrap();
        assert_eq!(typed::<Vec<u8>>(value).get().unwrap().as_ptr(), pointer);
    }
    let last = values.pop().unwrap();
    for value in &mut values {
        let taken = typed::<Vec<u8>>(value).take().unwrap();
        assert_ne!(taken.as_ptr(), pointer, "others read it still");
    }
    assert!(!outlet.has_space().unwrap());
    let mut last = last;
    let taken = typed::<Vec<u8>>(&mut last).take().unwrap();
    assert_eq!(taken.as_ptr(), pointer, "nobody reads it any more");
    assert!(outlet.has_space().unwrap());
}

#[test]
fn cache_03_a_local_value_is_there_when_it_was_put_for_this_execution() {
    let mut it = value::<u32>(Inlet::Local(Local), 1);
    assert_eq!(it.receive(0).unwrap(), Arrival::Nothing);
    typed::<u32>(&mut it).put(0, Ok(5)).unwrap();
    assert_eq!(it.receive(0).unwrap(), Arrival::Value);
    assert_eq!(it.receive(0).unwrap(), Arrival::Value, "idempotent");
    assert_eq!(it.receive(1).unwrap(), Arrival::Nothing);
    assert_eq!(typed::<u32>(&mut it).message().unwrap().unwrap(), 5);
}

#[test]
fn cache_04_a_read_of_nothing_is_an_error() {
    for (_, mut values) in every_route::<u32>(1) {
        let value = typed::<u32>(&mut values[0]);
        assert!(matches!(value.get(), Err(ChannelError::NoValue)));
        assert!(matches!(value.take(), Err(ChannelError::NoValue)));
        assert!(matches!(value.message(), Err(ChannelError::NoValue)));
        assert!(matches!(value.read_done(), Err(ChannelError::NoValue)));
        assert!(value.release().is_ok());
    }
}

#[test]
fn cache_05_no_reads_and_a_second_write_are_refused() {
    let kind = PayloadType::of::<u32>();
    assert!(matches!(
        kind.value(Inlet::Local(Local), 0),
        Err(ChannelError::InvalidSpec { what: "reads", .. })
    ));
    let mut values = vec![value::<u32>(Inlet::Local(Local), 1)];
    typed::<u32>(&mut values[0]).put(0, Ok(5)).unwrap();
    assert!(matches!(
        typed::<u32>(&mut values[0]).put(1, Ok(6)),
        Err(ChannelError::Unread)
    ));
    let mut outlet = wire::<u32>(1, Some(0), false, None).outlet;
    stage(&mut outlet, 7u32);
    assert!(matches!(
        outlet.publish(1, &mut values),
        Err(ChannelError::Unread)
    ));
    assert!(outlet.is_staged());
    assert_eq!(typed::<u32>(&mut values[0]).message().unwrap().unwrap(), 5);
    outlet.publish(1, &mut values).unwrap();
    assert_eq!(typed::<u32>(&mut values[0]).message().unwrap().unwrap(), 7);
}

#[test]
fn cache_06_a_closed_channel_ends_a_wait() {
    for (mut outlet, mut values) in every_route::<u32>(1).into_iter().skip(1) {
        stage(&mut outlet, 1u32);
        outlet.publish(0, &mut []).unwrap();
        outlet.close();
        outlet.close();
        assert_eq!(values[0].receive(0).unwrap(), Arrival::Value);
        values[0].read_done().unwrap();
        assert!(matches!(values[0].receive(1), Err(ChannelError::Closed)));
    }
}

#[test]
fn rw_05_leftovers_of_earlier_executions_are_skipped() {
    for (mut outlet, mut values) in every_route::<u32>(2).into_iter().skip(1) {
        for execution in 0..2 {
            stage(&mut outlet, execution as u32);
            assert_eq!(outlet.publish(execution, &mut []).unwrap(), Readiness::Ready);
        }
        // The task gave up after one read of two.
        values[0].receive(0).unwrap();
        values[0].read_done().unwrap();
        assert_eq!(values[0].receive(1).unwrap(), Arrival::Value);
        assert_eq!(typed::<u32>(&mut values[0]).get().unwrap(), &1);
        assert_eq!(
            values[0].receive(5).unwrap(),
            Arrival::Nothing,
            "skips what is there and waits"
        );
        stage(&mut outlet, 2u32);
        assert_eq!(outlet.publish(2, &mut []).unwrap(), Readiness::Ready);
        assert_eq!(values[0].receive(5).unwrap(), Arrival::Nothing);
    }
}

#[test]
fn executions_that_came_apart_are_an_error() {
    for (mut outlet, mut values) in every_route::<u32>(1).into_iter().skip(1) {
        stage(&mut outlet, 1u32);
        outlet.publish(0, &mut []).unwrap();
        values[0].receive(0).unwrap();
        values[0].read_done().unwrap();
        assert!(matches!(
            values[0].receive(0),
            Err(ChannelError::OutOfStep {
                expected: 0,
                found: 1
            })
        ));
    }
}

#[test]
fn abandoned_values_give_their_slot_back() {
    for (mut outlet, mut values) in every_route::<Vec<u8>>(2) {
        for execution in 0..6 {
            stage(&mut outlet, vec![1u8; 200]);
            assert_eq!(outlet.publish(execution, &mut values).unwrap(), Readiness::Ready);
            values[0].receive(execution).unwrap();
            typed::<Vec<u8>>(&mut values[0]).get().unwrap();
            values[0].release().unwrap();
            assert!(values[0].fault().is_none());
        }
    }
}

#[test]
fn rw_10_a_fault_is_published_on_every_route() {
    for (mut outlet, mut values) in every_route::<u32>(2) {
        stage(&mut outlet, 1u32);
        outlet.stage_fault(Fault::failed(vec![1, 2, 3], None));
        outlet.publish(0, &mut values).unwrap();
        assert_eq!(values[0].receive(0).unwrap(), Arrival::Fault);
        let fault = values[0].fault().unwrap();
        assert_eq!(
            (fault.kind(), fault.report()),
            (FaultKind::Failed, &[1, 2, 3][..])
        );
        let again = values[0].fault().unwrap();
        assert!(
            std::ptr::eq(fault.report(), again.report()),
            "it is not copied at every look"
        );
        let value = typed::<u32>(&mut values[0]);
        assert!(matches!(value.get(), Err(ChannelError::NoValue)));
        assert!(value.message().unwrap().is_err());
        value.read_done().unwrap();
        assert_eq!(values[0].receive(1).unwrap(), Arrival::Nothing);
    }
}

#[test]
fn a_fault_keeps_its_original_in_this_process() {
    let original: Arc<dyn std::error::Error + Send + Sync> = Arc::new(std::fmt::Error);
    let (mut outlet, mut values) = every_route::<u32>(1).remove(1);
    outlet.stage_fault(Fault::failed(vec![], Some(original)));
    outlet.publish(0, &mut []).unwrap();
    values[0].receive(0).unwrap();
    assert!(
        values[0]
            .fault()
            .unwrap()
            .original()
            .unwrap()
            .is::<std::fmt::Error>()
    );
}

#[test]
fn rw_13_a_message_goes_to_all_routes_or_to_none() {
    let mut wiring = wire::<u32>(1, Some(0), true, Some(spec(2, 1)));
    let mut values = vec![value::<u32>(Inlet::Local(Local), 1)];
    values.extend(wiring.inlets.into_iter().map(|inlet| value::<u32>(inlet, 1)));
    stage(&mut wiring.outlet, 5u32);
    assert_eq!(wiring.outlet.publish(0, &mut values).unwrap(), Readiness::Ready);
    assert!(!wiring.outlet.is_staged());
    assert_eq!(typed::<u32>(&mut values[0]).message().unwrap().unwrap(), 5);
    // The shared ring has a free slot, the ring has none.
    stage(&mut wiring.outlet, 6u32);
    assert_eq!(wiring.outlet.publish(1, &mut values).unwrap(), Readiness::Blocked);
    assert!(wiring.outlet.is_staged());
    for value in &mut values[1..] {
        assert_eq!(value.receive(0).unwrap(), Arrival::Value);
        assert_eq!(typed::<u32>(value).message().unwrap().unwrap(), 5);
        assert_eq!(value.receive(1).unwrap(), Arrival::Nothing, "none is one ahead");
    }
    assert_eq!(wiring.outlet.publish(1, &mut values).unwrap(), Readiness::Ready);
    for value in &mut values {
        assert_eq!(value.receive(1).unwrap(), Arrival::Value);
        assert_eq!(typed::<u32>(value).message().unwrap().unwrap(), 6);
    }
}

#[test]
fn comp_07_a_value_that_cannot_be_written_is_nowhere_and_a_fault_goes_instead() {
    let small = SharedSpec {
        max_bytes: 1000,
        ..spec(2, 1)
    };
    let mut wiring = wire::<Vec<u8>>(2, None, true, Some(small));
    let mut values: Vec<_> = wiring
        .inlets
        .into_iter()
        .map(|it| value::<Vec<u8>>(it, 1))
        .collect();
    stage(&mut wiring.outlet, vec![0u8; 2000]);
    assert!(matches!(
        wiring.outlet.publish(0, &mut []),
        Err(ChannelError::TooLarge { .. })
    ));
    assert!(wiring.outlet.is_staged());
    wiring.outlet.stage_fault(Fault::failed(vec![7], None));
    assert_eq!(wiring.outlet.publish(0, &mut []).unwrap(), Readiness::Ready);
    for value in &mut values {
        value.receive(0).unwrap();
        assert_eq!(value.fault().unwrap().report(), [7]);
    }
}

#[test]
fn nothing_staged_is_nothing_to_publish() {
    let (mut outlet, _) = every_route::<u32>(1).remove(1);
    assert!(matches!(outlet.publish(0, &mut []), Err(ChannelError::NoValue)));
}

#[test]
fn what_is_sent_at_once_goes_to_one_channel_with_room_and_is_given_back_elsewhere() {
    let mut only = wire::<String>(1, None, true, None);
    let mut read = value::<String>(only.inlets.remove(0), 1);
    let sends = |outlet: &mut Box<dyn AnyOutlet>, text: &str| {
        let back = outlet.typed_mut::<String>().unwrap().try_put(text.to_owned());
        assert!(back.as_deref().is_none_or(|back| back == text));
        back.is_none()
    };
    assert!(sends(&mut only.outlet, "a"));
    assert!(!sends(&mut only.outlet, "b"), "there is one slot");
    assert_eq!(typed::<String>(&mut read).try_next().as_deref(), Some("a"));
    assert_eq!(typed::<String>(&mut read).try_next(), None, "nothing has come");
    only.outlet.stage_fault(Fault::cancelled());
    assert_eq!(only.outlet.publish(1, &mut []).unwrap(), Readiness::Ready);
    assert_eq!(typed::<String>(&mut read).try_next(), None, "a fault is no value");
    assert_eq!(read.receive(1).unwrap(), Arrival::Fault);
    read.read_done().unwrap();
    assert!(sends(&mut only.outlet, "c"));
    assert_eq!(read.receive(2).unwrap(), Arrival::Value);
    assert!(!read.owes_nothing(), "its slot is waited for");
    assert_eq!(typed::<String>(&mut read).take().unwrap(), "c");
    assert!(read.owes_nothing(), "the slot has been given back");

    let small = SharedSpec {
        max_bytes: 1000,
        ..spec(1, 1)
    };
    let mut far = wire::<String>(1, None, false, Some(small));
    let mut read = value::<String>(far.inlets.remove(0), 1);
    assert!(!sends(&mut far.outlet, &"e".repeat(2000)), "it does not fit");
    assert!(sends(&mut far.outlet, "f") && !sends(&mut far.outlet, "g"));
    assert_eq!(read.receive(0).unwrap(), Arrival::Value);
    assert!(!read.owes_nothing(), "its slot is waited for");
    assert_eq!(typed::<String>(&mut read).take().unwrap(), "f");
    assert!(
        read.owes_nothing() && sends(&mut far.outlet, "h"),
        "the slot has been given back"
    );

    for mut wiring in [
        wire::<String>(2, Some(0), true, None),
        wire::<String>(2, Some(0), false, None),
        wire::<String>(2, None, true, Some(spec(2, 1))),
        wire::<String>(2, None, false, None),
    ] {
        assert!(!sends(&mut wiring.outlet, "d"));
    }
}

#[test]
fn an_output_nobody_reads_takes_everything() {
    let mut outlet = wire::<u32>(1, None, false, None).outlet;
    for execution in 0..3 {
        stage(&mut outlet, 1u32);
        assert_eq!(outlet.publish(execution, &mut []).unwrap(), Readiness::Ready);
    }
}

#[test]
fn a_constant_is_the_same_in_every_execution() {
    let bytes = encode(&vec![1u32, 2]).unwrap().to_vec();
    let mut it = PayloadType::of::<Vec<u32>>().constant(&bytes).unwrap();
    for execution in [0, 7, 3] {
        assert_eq!(it.receive(execution).unwrap(), Arrival::Value);
        let value = typed::<Vec<u32>>(&mut it);
        assert_eq!(value.slice().unwrap(), [1, 2]);
        assert_eq!(value.take().unwrap(), [1, 2]);
        assert_eq!(value.message().unwrap().unwrap(), [1, 2]);
        it.read_done().unwrap();
        it.release().unwrap();
    }
    assert!(PayloadType::of::<Vec<u32>>().constant(&bytes[..5]).is_err());
}

#[test]
fn chan_23_a_tensor_is_viewed_in_its_slot_and_copied_when_it_leaves() {
    let mut wiring = wire::<Tensor>(2, None, false, Some(spec(2, 1)));
    let mut it = value::<Tensor>(wiring.inlets.remove(0), 2);
    for execution in 0..4u64 {
        let tensor = Tensor::from_slice(&[execution as f32; 100], &[10, 10]).unwrap();
        stage(&mut wiring.outlet, tensor.clone());
        assert_eq!(
            wiring.outlet.publish(execution, &mut []).unwrap(),
            Readiness::Ready
        );
        it.receive(execution).unwrap();
        let value = typed::<Tensor>(&mut it);
        let in_slot = value.get().unwrap().bytes().as_ptr();
        assert_eq!(value.get().unwrap(), &tensor);
        let (copy, taken) = (value.get().unwrap().clone(), value.take().unwrap());
        assert!(copy.bytes().as_ptr() != in_slot && taken.bytes().as_ptr() != in_slot);
        value.read_done().unwrap();
        assert_eq!(value.take().unwrap(), tensor);
        value.read_done().unwrap();
        // The slot is written again; values taken from it stay unchanged.
        stage(&mut wiring.outlet, Tensor::zeros::<f32>(&[100]).unwrap());
        assert_eq!((&copy, &taken), (&tensor, &tensor));
    }
}

#[test]
fn a_slice_of_a_slot_is_a_view() {
    let mut wiring = wire::<Vec<f64>>(1, None, false, Some(spec(1, 1)));
    let mut it = value::<Vec<f64>>(wiring.inlets.remove(0), 1);
    stage(&mut wiring.outlet, vec![0.5; 100]);
    wiring.outlet.publish(0, &mut []).unwrap();
    it.receive(0).unwrap();
    let value = typed::<Vec<f64>>(&mut it);
    assert_eq!(value.slice().unwrap(), [0.5; 100]);
    assert_eq!(value.slice().unwrap().as_ptr(), value.slice().unwrap().as_ptr());
    assert_ne!(value.slice().unwrap().as_ptr(), value.get().unwrap().as_ptr());
}

#[test]
fn ends_of_another_type_are_refused() {
    let (writer, mut readers) = PayloadType::of::<u32>()
        .ring(1, Doorbell::heap(), vec![Doorbell::heap()])
        .unwrap();
    let other = PayloadType::of::<String>();
    let wrong = other.value(Inlet::Ring(readers.remove(0)), 1);
    assert!(matches!(wrong, Err(ChannelError::WrongType { .. })));
    let wrong = other.outlet(Routes {
        local: None,
        channels: vec![Route::Ring(writer)],
    });
    assert!(matches!(wrong, Err(ChannelError::WrongType { .. })));
    let mut values = vec![value::<u32>(Inlet::Local(Local), 1)];
    let mut outlet = wire::<String>(1, Some(0), false, None).outlet;
    stage(&mut outlet, String::new());
    assert!(matches!(
        outlet.publish(0, &mut values),
        Err(ChannelError::WrongType { .. })
    ));
    assert!(matches!(outlet.publish(0, &mut []), Err(ChannelError::NoValue)));
}

#[test]
fn payload_types_are_equal_by_type() {
    assert_eq!(PayloadType::of::<u32>(), PayloadType::of::<u32>());
    assert_ne!(PayloadType::of::<u32>(), PayloadType::of::<i32>());
    assert_eq!(format!("{:?}", PayloadType::of::<u32>()), "PayloadType(u32)");
    assert_eq!(
        value::<u32>(Inlet::Local(Local), 1).payload_type(),
        PayloadType::of::<u32>()
    );
}

#[test]
fn comp_07_a_route_that_fails_closes_the_others() {
    let spec = spec(2, 1);
    let (_segment, shared_region) = region(Provider::Heap, &spec);
    let shared = SharedWriter::attach(shared_region.clone(), &spec, Bells::new(1).readers).unwrap();
    let kind = PayloadType::of::<u32>();
    let (ring, mut readers) = kind.ring(2, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
    let mut outlet = kind
        .outlet(Routes {
            local: None,
            channels: vec![Route::Ring(ring), Route::Shared(shared)],
        })
        .unwrap();
    let mut beside = value::<u32>(Inlet::Ring(readers.remove(0)), 1);
    for execution in 0..2 {
        stage(&mut outlet, execution as u32);
        assert_eq!(outlet.publish(execution, &mut []).unwrap(), Readiness::Ready);
    }
    // The reader of the shared route dies while it holds both slots.
    let culprit = Culprit {
        end: End::Reader(0),
        pid: 4121,
    };
    shared::poison(&shared_region, culprit).unwrap();
    for execution in 0..2 {
        assert_eq!(beside.receive(execution).unwrap(), Arrival::Value);
        beside.read_done().unwrap();
    }
    stage(&mut outlet, 2u32);
    assert!(matches!(
        outlet.publish(2, &mut []),
        Err(ChannelError::Poisoned { culprit: found }) if found == culprit
    ));
    assert!(matches!(beside.receive(2), Err(ChannelError::Closed)));
}

#[test]
fn an_output_has_at_most_one_channel_of_each_kind() {
    let kind = PayloadType::of::<u32>();
    let ring = || {
        let (writer, _) = kind.ring(2, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
        Route::Ring(writer)
    };
    let spec = spec(2, 1);
    let mut segments = Vec::new();
    let mut shared = || {
        let (segment, region) = region(Provider::Heap, &spec);
        segments.push(segment);
        Route::Shared(SharedWriter::attach(region, &spec, Bells::new(1).readers).unwrap())
    };
    let refused = |channels| {
        let outlet = kind.outlet(Routes {
            local: None,
            channels,
        });
        match outlet.err() {
            Some(ChannelError::TooManyRoutes { how }) => how,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(vec![ring(), ring()]), "move");
    assert_eq!(refused(vec![shared(), shared()]), "encode");
}

thread_local! {
    static SERIALISED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A value that counts its serialisations on this thread.
#[derive(Clone, serde::Deserialize)]
struct Seen(Tensor);

impl serde::Serialize for Seen {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SERIALISED.set(SERIALISED.get() + 1);
        serializer.serialize_newtype_struct("Seen", &self.0)
    }
}

#[test]
fn a_value_that_waits_for_space_is_looked_at_once_and_one_that_is_refused_fixes_no_shape() {
    let seen = |len: usize| Seen(Tensor::zeros::<u8>(&[len]).unwrap());
    let spec = SharedSpec {
        max_bytes: 4096,
        ..spec(1, 1)
    };
    let Wiring {
        mut outlet,
        inlets: _inlets,
    } = wire::<Seen>(1, None, false, Some(spec));
    outlet.agree(selvedge_channels::TensorSchema {
        edge: "a.f".to_owned(),
        device: None,
        static_shape: true,
    });
    stage(&mut outlet, seen(10_000));
    assert!(matches!(
        outlet.publish(0, &mut []),
        Err(ChannelError::TooLarge { .. })
    ));
    stage(&mut outlet, seen(5));
    assert_eq!(outlet.publish(0, &mut []).unwrap(), Readiness::Ready);
    // The value is serialised once to check the agreed shape, although no attempt finds a free slot.
    stage(&mut outlet, seen(5));
    SERIALISED.set(0);
    for _ in 0..9 {
        assert_eq!(outlet.publish(1, &mut []).unwrap(), Readiness::Blocked);
    }
    assert_eq!(SERIALISED.get(), 1);
    stage(&mut outlet, seen(6));
    assert!(matches!(
        outlet.publish(1, &mut []),
        Err(ChannelError::StaticShape { .. })
    ));
}

#[test]
fn chan_06_a_composite_that_is_closed_publishes_nothing() {
    for (ring, shared) in [(true, None), (false, Some(spec(2, 1))), (true, Some(spec(2, 1)))] {
        let Wiring { mut outlet, inlets } = wire::<u64>(2, None, ring, shared);
        let mut values: Vec<_> = inlets.into_iter().map(|inlet| value::<u64>(inlet, 1)).collect();
        outlet.close();
        assert!(!outlet.is_open());
        assert!(matches!(outlet.has_space(), Err(ChannelError::Closed)));
        stage(&mut outlet, 7_u64);
        for _ in 0..2 {
            assert!(matches!(outlet.publish(0, &mut []), Err(ChannelError::Closed)));
        }
        assert!(outlet.typed_mut::<u64>().unwrap().try_put(8).is_some());
        for value in &mut values {
            assert!(matches!(value.receive(0), Err(ChannelError::Closed)));
        }
    }
}
