//! A warm hop of a small value allocates nothing on the heap.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic
#![allow(unsafe_code)] // a counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use selvedge_channels::{
    AnyOutlet, AnyValue, Arrival, Doorbell, Inlet, PayloadType, Provider, Readiness, Route, Routes,
    SEGMENT_HEADER_BYTES, Segment, SharedReader, SharedSpec, SharedWriter, Wire, format,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the one that the system allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Passes values from an outlet to a value: stage, publish, fill, get, read done.
fn hop<T: Wire + Copy + PartialEq>(
    outlet: &mut Box<dyn AnyOutlet>,
    value: &mut Box<dyn AnyValue>,
    executions: std::ops::Range<u64>,
    what: T,
) {
    for execution in executions {
        outlet.typed_mut::<T>().unwrap().stage(what);
        assert_eq!(outlet.publish(execution, &mut []).unwrap(), Readiness::Ready);
        assert_eq!(value.receive(execution).unwrap(), Arrival::Value);
        let typed = value.typed_mut::<T>().unwrap();
        assert!(*typed.get().unwrap() == what);
        value.read_done().unwrap();
    }
}

#[test]
fn a_hop_through_a_ring_does_not_allocate() {
    let kind = PayloadType::of::<u64>();
    let (writer, mut readers) = kind.ring(4, Doorbell::heap(), vec![Doorbell::heap()]).unwrap();
    let mut outlet = kind
        .outlet(Routes {
            local: None,
            channels: vec![Route::Ring(writer)],
        })
        .unwrap();
    let mut value = kind.value(Inlet::Ring(readers.remove(0)), 1).unwrap();
    hop(&mut outlet, &mut value, 0..9, 5u64);
    assert_eq!(allocations(|| hop(&mut outlet, &mut value, 9..100, 5u64)), 0);
}

#[test]
fn a_hop_through_shared_memory_does_not_allocate() {
    let spec = SharedSpec {
        slots: 4,
        slot_bytes: 1000,
        readers: 1,
        max_bytes: 1 << 20,
    };
    let size = spec.size_bytes().unwrap();
    let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size).unwrap();
    // SAFETY: the segment is new, and nothing else uses it.
    let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, size) }.unwrap();
    format(&region, &spec).unwrap();
    let bell = Doorbell::heap();
    let reader = SharedReader::attach(region.clone(), &spec, 0, bell.clone()).unwrap();
    let writer = SharedWriter::attach(region, &spec, vec![bell]).unwrap();
    let kind = PayloadType::of::<(u64, [u64; 10])>();
    let routes = Routes {
        local: None,
        channels: vec![Route::Shared(writer)],
    };
    let mut outlet = kind.outlet(routes).unwrap();
    let mut value = kind.value(Inlet::Shared(reader), 1).unwrap();
    let what = (5u64, [9u64; 10]);
    hop(&mut outlet, &mut value, 0..9, what);
    assert_eq!(allocations(|| hop(&mut outlet, &mut value, 9..100, what)), 0);
}
