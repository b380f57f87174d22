//! Tests of one process's memory and events in another process.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)] // calls the driver
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)] // as a C program would

mod simulated;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaStream};

use simulated::calls::{alloc, context, copy, event, fill, read, spin};
use simulated::peer::{Peer, is_second};
use simulated::{Run, SIMULATOR, descriptors};

const INTERPROCESS: u32 = 6;

fn memory_handle(at: u64) -> Result<[u8; 64], CUresult> {
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    match unsafe { sys::cuIpcGetMemHandle(&raw mut handle, at) } {
        CUresult::CUDA_SUCCESS => Ok(handle.reserved.map(i8::cast_unsigned)),
        code => Err(code),
    }
}

fn open_memory(handle: [u8; 64]) -> Result<u64, CUresult> {
    let handle = sys::CUipcMemHandle {
        reserved: handle.map(u8::cast_signed),
    };
    let mut at = 0;
    match unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut at, handle, 1) } {
        CUresult::CUDA_SUCCESS => Ok(at),
        code => Err(code),
    }
}

fn event_handle(event: sys::CUevent) -> [u8; 64] {
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    unsafe { sys::cuIpcGetEventHandle(&raw mut handle, event).result().unwrap() };
    handle.reserved.map(i8::cast_unsigned)
}

fn open_event(handle: [u8; 64]) -> Result<sys::CUevent, CUresult> {
    let handle = sys::CUipcEventHandle {
        reserved: handle.map(u8::cast_signed),
    };
    let mut event = null_mut();
    match unsafe { sys::cuIpcOpenEventHandle(&raw mut event, handle) } {
        CUresult::CUDA_SUCCESS => Ok(event),
        code => Err(code),
    }
}

fn record(event: sys::CUevent, stream: &Arc<CudaStream>) {
    unsafe { sys::cuEventRecord(event, stream.cu_stream()).result().unwrap() };
}

fn wait(stream: &Arc<CudaStream>, event: sys::CUevent) {
    unsafe {
        sys::cuStreamWaitEvent(stream.cu_stream(), event, 0)
            .result()
            .unwrap()
    };
}

/// The first process writes and records; the second waits if `ordered` and copies. Neither synchronises in between.
fn hand_over(test: &str, ordered: bool) {
    let context = context();
    let stream = context.new_stream().unwrap();
    let mut peer = Peer::new(test);
    if is_second() {
        let from = open_memory(peer.receive()).unwrap();
        assert_eq!(open_memory(peer.receive()), Ok(from), "a context has it once");
        let ready = open_event(peer.receive()).unwrap();
        let to = alloc(4096);
        for round in 0..10_u8 {
            assert_eq!(peer.receive(), [round]);
            if ordered {
                wait(&stream, ready);
            }
            copy(&stream, to, from, 4096);
            stream.synchronize().unwrap();
            assert!(!ordered || read::<2>(to) == [f32::from(round); 2]);
            // The host has seen the copy, so the first process may write again.
            peer.send(&[round]);
        }
        let violations = SIMULATOR.violations();
        unsafe {
            sys::cuIpcCloseMemHandle(from).result().unwrap();
            assert_eq!(
                sys::cuMemsetD8_v2(from, 0, 1),
                CUresult::CUDA_SUCCESS,
                "it was opened twice"
            );
            sys::cuIpcCloseMemHandle(from).result().unwrap();
            assert_eq!(sys::cuMemsetD8_v2(from, 0, 1), CUresult::CUDA_ERROR_INVALID_VALUE);
            sys::cuEventDestroy_v2(ready).result().unwrap();
        }
        peer.send(&violations.to_ne_bytes());
        return;
    }
    let scratch = alloc(64);
    fill(&stream, scratch, 16, 0.0);
    stream.synchronize().unwrap(); // opens the timeline
    let before = descriptors();
    let (at, ready) = (alloc(4096), event(INTERPROCESS));
    let (memory, event) = (memory_handle(at).unwrap(), event_handle(ready));
    assert_eq!(open_memory(memory), Err(CUresult::CUDA_ERROR_INVALID_CONTEXT));
    peer.send(&memory);
    peer.send(&memory);
    peer.send(&event);
    for round in 0..10_u8 {
        fill(&stream, at, 1024, f32::from(round));
        record(ready, &stream);
        peer.send(&[round]);
        assert_eq!(peer.receive(), [round]);
    }
    let theirs = u64::from_ne_bytes(peer.receive());
    peer.join();
    context.synchronize().unwrap();
    let all = theirs + SIMULATOR.violations();
    assert_eq!(all == 0, ordered, "{all}");
    unsafe {
        sys::cuMemFree_v2(at).result().unwrap();
        sys::cuEventDestroy_v2(ready).result().unwrap();
    }
    assert!(
        !ordered || descriptors() < before,
        "our end of the socket is closed, and nothing else is open"
    );
}

#[test]
fn an_event_orders_two_processes() {
    let test = "an_event_orders_two_processes";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 3).outside() else {
        return hand_over(test, true);
    };
    assert_eq!(ran.report, "");
}

#[test]
fn without_the_event_it_is_a_race() {
    let test = "without_the_event_it_is_a_race";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 3).outside() else {
        return hand_over(test, false);
    };
    assert!(ran.report.contains("\"race\""), "{}", ran.report);
}

#[test]
fn pool_memory_cannot_be_exported() {
    let Some(_) = Run::new("pool_memory_cannot_be_exported").outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut at = 0;
        unsafe {
            sys::cuMemAllocAsync(&raw mut at, 64, stream.cu_stream())
                .result()
                .unwrap()
        };
        assert_eq!(memory_handle(at), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
        return;
    };
}

const GRANULE: usize = 2 << 20;

fn properties() -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: 0,
        },
        win32HandleMetaData: null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// Maps memory and allows its use.
fn map(handle: u64) -> u64 {
    let access = sys::CUmemAccessDesc {
        location: properties().location,
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let mut at = 0;
    unsafe {
        sys::cuMemAddressReserve(&raw mut at, GRANULE, 0, 0, 0)
            .result()
            .unwrap();
        sys::cuMemMap(at, GRANULE, 0, handle, 0).result().unwrap();
        assert_eq!(
            sys::cuMemsetD8_v2(at, 0, 1),
            CUresult::CUDA_ERROR_INVALID_VALUE,
            "not allowed yet"
        );
        sys::cuMemSetAccess(at, GRANULE, &raw const access, 1)
            .result()
            .unwrap();
    }
    at
}

fn unmap(at: u64, handle: u64) {
    unsafe {
        sys::cuMemUnmap(at, GRANULE).result().unwrap();
        sys::cuMemAddressFree(at, GRANULE).result().unwrap();
        sys::cuMemRelease(handle).result().unwrap();
    }
}

#[test]
fn mapped_memory_is_for_the_devices_that_are_allowed_or_by_way_of_both_contexts() {
    let test = "mapped_memory_is_for_the_devices_that_are_allowed_or_by_way_of_both_contexts";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_DEVICES", 2).outside() else {
        let context = context();
        let (mut handle, properties) = (0, properties());
        unsafe {
            let created = sys::cuMemCreate(&raw mut handle, GRANULE, &raw const properties, 0);
            created.result().unwrap();
        }
        let at = map(handle);
        let other = CudaContext::new(1).unwrap();
        let stream = other.new_stream().unwrap();
        let to = alloc(64);
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        unsafe {
            let queue = stream.cu_stream();
            assert_eq!(sys::cuMemcpyDtoDAsync_v2(to, at, 64, queue), invalid);
            assert_eq!(sys::cuMemsetD8Async(at, 1, 64, queue), invalid);
            sys::cuMemcpyPeerAsync(to, other.cu_ctx(), at, context.cu_ctx(), 64, queue)
                .result()
                .unwrap();
            let wrong = sys::cuMemcpyPeerAsync(to, other.cu_ctx(), at, other.cu_ctx(), 64, queue);
            assert_eq!(wrong, invalid);
            stream.synchronize().unwrap();
            let mut access = sys::CUmemAccessDesc {
                location: properties.location,
                flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
            access.location.id = 1;
            sys::cuMemSetAccess(at, GRANULE, &raw const access, 1)
                .result()
                .unwrap();
            sys::cuMemcpyDtoDAsync_v2(to, at, 64, queue).result().unwrap();
        }
        stream.synchronize().unwrap();
        unmap(at, handle);
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn virtual_memory_travels_as_a_descriptor() {
    let test = "virtual_memory_travels_as_a_descriptor";
    let Some(ran) = Run::new(test).outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut peer = Peer::new(test);
        if is_second() {
            stream.synchronize().unwrap();
            fill(&stream, alloc(64), 16, 0.0);
            stream.synchronize().unwrap(); // opens the timeline
            let before = descriptors();
            let received = peer.receive_descriptor();
            let mut handle = 0;
            let kind = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
            let raw = received.as_raw_fd() as usize as *mut _;
            unsafe {
                sys::cuMemImportFromShareableHandle(&raw mut handle, raw, kind)
                    .result()
                    .unwrap()
            };
            drop(received);
            let at = map(handle);
            assert_eq!(read::<3>(at), [4.0; 3]);
            fill(&stream, at, 8, 5.0);
            stream.synchronize().unwrap();
            peer.meet();
            unmap(at, handle);
            assert_eq!(descriptors(), before);
            return;
        }
        let (mut handle, mut raw) = (0, -1);
        let (properties, mut granule) = (properties(), 0);
        unsafe {
            let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            sys::cuMemGetAllocationGranularity(&raw mut granule, &raw const properties, minimum)
                .result()
                .unwrap();
            assert_eq!(granule, GRANULE);
            let odd = sys::cuMemCreate(&raw mut handle, 4096, &raw const properties, 0);
            assert_eq!(odd, CUresult::CUDA_ERROR_INVALID_VALUE);
            sys::cuMemCreate(&raw mut handle, GRANULE, &raw const properties, 0)
                .result()
                .unwrap();
        }
        let at = map(handle);
        fill(&stream, at, 8, 4.0);
        stream.synchronize().unwrap();
        let kind = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        unsafe {
            sys::cuMemExportToShareableHandle((&raw mut raw).cast(), handle, kind, 0)
                .result()
                .unwrap();
            peer.send_descriptor(OwnedFd::from_raw_fd(raw));
        }
        peer.meet();
        assert_eq!(read::<8>(at), [5.0; 8]);
        unmap(at, handle);
        peer.join();
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn an_event_of_the_dead_is_never_reached() {
    let test = "an_event_of_the_dead_is_never_reached";
    let Some(_) = Run::new(test).outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut peer = Peer::new(test);
        if is_second() {
            let ready = event(INTERPROCESS);
            spin(&stream, 1);
            record(ready, &stream);
            peer.send(&event_handle(ready));
            let _ = peer.receive::<1>(); // until this process is killed
            return;
        }
        let ready = open_event(peer.receive()).unwrap();
        wait(&stream, ready);
        assert_eq!(SIMULATOR.settle(), 2);
        peer.kill();
        assert_eq!(SIMULATOR.settle(), 2);
        assert_eq!(
            unsafe { sys::cuEventQuery(ready) },
            CUresult::CUDA_ERROR_NOT_READY
        );
        std::process::exit(finish(test)); // the stream cannot be joined
    };
}

/// Prints the result line that the test harness would print, and returns the code of success.
fn finish(test: &str) -> i32 {
    println!("test {test} ... ok, 1 passed");
    0
}

#[test]
fn values_order_two_processes() {
    let test = "values_order_two_processes";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 5).outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut peer = Peer::new(test);
        if is_second() {
            let data = open_memory(peer.receive()).unwrap();
            let to = alloc(64);
            unsafe {
                sys::cuStreamWaitValue32_v2(stream.cu_stream(), data + 64, 1, 0)
                    .result()
                    .unwrap()
            };
            copy(&stream, to, data, 64);
            peer.meet();
            stream.synchronize().unwrap();
            assert_eq!(read::<2>(to), [6.0; 2]);
            assert_eq!(SIMULATOR.violations(), 0);
            return;
        }
        let data = alloc(128);
        peer.send(&memory_handle(data).unwrap());
        peer.meet();
        fill(&stream, data, 16, 6.0);
        unsafe {
            sys::cuStreamWriteValue32_v2(stream.cu_stream(), data + 64, 1, 0)
                .result()
                .unwrap()
        };
        peer.join();
        context.synchronize().unwrap();
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

/// Tests two words in a file that both processes have registered. The data is written between the two words; the second
/// process waits for one of them.
fn wait_for_a_word(test: &str, word: u64) {
    use rustix::mm::{MapFlags, ProtFlags};
    let context = context();
    let stream = context.new_stream().unwrap();
    let mut peer = Peer::new(test);
    let file = if is_second() {
        peer.receive_descriptor()
    } else {
        let file = rustix::fs::memfd_create("words", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        peer.send_descriptor(&file);
        file
    };
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    let page = unsafe { rustix::mm::mmap(null_mut(), 4096, rights, MapFlags::SHARED, &file, 0) }.unwrap();
    unsafe { sys::cuMemHostRegister_v2(page, 4096, 2).result().unwrap() };
    let words = page as u64;
    if is_second() {
        let (data, to) = (open_memory(peer.receive()).unwrap(), alloc(64));
        unsafe {
            sys::cuStreamWaitValue32_v2(stream.cu_stream(), words + word * 4, 1, 0)
                .result()
                .unwrap()
        };
        copy(&stream, to, data, 64);
        peer.meet();
        stream.synchronize().unwrap();
        peer.meet();
        peer.send(&SIMULATOR.violations().to_ne_bytes());
        return;
    }
    let data = alloc(64);
    peer.send(&memory_handle(data).unwrap());
    peer.meet();
    let write = |word: u64| {
        unsafe {
            sys::cuStreamWriteValue32_v2(stream.cu_stream(), words + word * 4, 1, 0)
                .result()
                .unwrap()
        };
    };
    write(0);
    fill(&stream, data, 16, 6.0);
    write(1);
    peer.meet();
    context.synchronize().unwrap();
    let theirs = u64::from_ne_bytes(peer.receive());
    assert_eq!(theirs + SIMULATOR.violations(), 1 - word);
    peer.join();
}

#[test]
fn a_word_orders_after_what_was_before_its_write() {
    let test = "a_word_orders_after_what_was_before_its_write";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 16).outside() else {
        return wait_for_a_word(test, 1);
    };
    assert_eq!(ran.report, "");
}

#[test]
fn a_word_orders_after_nothing_that_came_later() {
    let test = "a_word_orders_after_nothing_that_came_later";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 17).outside() else {
        return wait_for_a_word(test, 0);
    };
    assert!(ran.report.contains("\"race\""), "{}", ran.report);
}

/// The operations of a killed process are over: an operation that uses its memory later need not be ordered after them.
#[test]
fn the_dead_race_with_nobody() {
    let test = "the_dead_race_with_nobody";
    let Some(ran) = Run::new(test).outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut peer = Peer::new(test);
        if is_second() {
            let at = open_memory(peer.receive()).unwrap();
            fill(&stream, at, 16, 7.0);
            assert_eq!(SIMULATOR.settle(), 1);
            peer.send(b".");
            let _ = peer.receive::<1>(); // until this process is killed
            return;
        }
        let at = alloc(64);
        peer.send(&memory_handle(at).unwrap());
        let _ = peer.receive::<1>();
        peer.kill();
        assert_eq!(read::<1>(at), [7.0]);
        unsafe { sys::cuMemFree_v2(at).result().unwrap() };
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

/// Both ends record an event, and each waits for the other's record.
#[test]
fn an_event_is_recorded_from_both_ends() {
    let test = "an_event_is_recorded_from_both_ends";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 4).outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let mut peer = Peer::new(test);
        let (at, turn) = if is_second() {
            (
                open_memory(peer.receive()).unwrap(),
                open_event(peer.receive()).unwrap(),
            )
        } else {
            let (at, turn) = (alloc(64), event(INTERPROCESS));
            peer.send(&memory_handle(at).unwrap());
            peer.send(&event_handle(turn));
            (at, turn)
        };
        for round in 0..20_u8 {
            if is_second() == round.is_multiple_of(2) {
                assert_eq!(peer.receive(), [round]);
                continue;
            }
            wait(&stream, turn);
            fill(&stream, at, 16, f32::from(round));
            record(turn, &stream);
            peer.send(&[round]);
        }
        wait(&stream, turn);
        peer.meet();
        context.synchronize().unwrap();
        if !is_second() {
            // The second process wrote in the last round.
            assert_eq!(read::<1>(at), [19.0]);
        }
        assert_eq!(SIMULATOR.violations(), 0);
        peer.join();
        return;
    };
    assert_eq!(ran.report, "");
}
