//! Tests of the driver through cudarc, unmodified.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)] // calls the driver
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)] // as a C program would

mod simulated;

use std::ptr::from_mut;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, DevicePtr};

use simulated::calls::{alloc, context, fill, function, spin};
use simulated::{Run, SIMULATOR, descriptors, returns_to, threads};

#[test]
fn contexts_streams_copies_and_events_work() {
    let Some(ran) = Run::new("contexts_streams_copies_and_events_work").outside() else {
        let context = CudaContext::new(0).unwrap();
        assert_eq!(CudaContext::device_count().unwrap(), 1);
        assert!(context.name().unwrap().contains("simulated"));
        let stream = context.new_stream().unwrap();
        let there = stream.clone_htod(&[1.0_f32, 2.0, 3.0]).unwrap();
        let mut copy = stream.alloc_zeros::<f32>(3).unwrap();
        stream.memcpy_dtod(&there, &mut copy).unwrap();
        let event = stream.record_event(None).unwrap();
        let other = context.new_stream().unwrap();
        other.wait(&event).unwrap();
        assert_eq!(other.clone_dtoh(&copy).unwrap(), [1.0, 2.0, 3.0]);
        event.synchronize().unwrap();
        assert!(event.is_complete());
        let default = context.default_stream();
        assert_eq!(default.clone_dtoh(&there).unwrap(), [1.0, 2.0, 3.0]);
        drop((there, copy));
        context.synchronize().unwrap();
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
    assert!(ran.timeline.contains("cuMemcpyDtoDAsync"));
}

#[test]
fn kernels_are_known_by_name() {
    let Some(_) = Run::new("kernels_are_known_by_name").outside() else {
        let context = context();
        let stream = context.default_stream();
        let out = stream.alloc_zeros::<f32>(8).unwrap();
        let (at, _) = out.device_ptr(&stream);
        fill(&stream, at, 8, 2.5);
        assert_eq!(stream.clone_dtoh(&out).unwrap(), [2.5; 8]);
        assert_eq!(function(c"nothing"), Err(CUresult::CUDA_ERROR_NOT_FOUND));
        return;
    };
}

#[test]
fn addresses_that_are_not_there_are_refused() {
    let Some(ran) = Run::new("addresses_that_are_not_there_are_refused").outside() else {
        let _context = context();
        let at = alloc(64);
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        unsafe {
            assert_eq!(sys::cuMemsetD8_v2(at, 1, 65), invalid);
            assert_eq!(sys::cuMemsetD8_v2(at + 64, 1, 1), invalid);
            assert_eq!(sys::cuMemsetD8_v2(at, 1, 64), CUresult::CUDA_SUCCESS);
            assert_eq!(sys::cuMemFree_v2(at + 8), invalid);
            assert_eq!(sys::cuMemFree_v2(at), CUresult::CUDA_SUCCESS);
            assert_eq!(sys::cuMemsetD8_v2(at, 1, 1), invalid);
            assert_eq!(sys::cuMemFree_v2(at), invalid);
            assert_eq!(
                sys::cuStreamSynchronize(0x77_7770 as _),
                CUresult::CUDA_ERROR_INVALID_HANDLE
            );
            assert_eq!(
                sys::cuEventQuery(0x77_7770 as _),
                CUresult::CUDA_ERROR_INVALID_HANDLE
            );
        }
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn memory_has_an_end_and_calls_fail_when_told_to() {
    let run = Run::new("memory_has_an_end_and_calls_fail_when_told_to")
        .with("SELVEDGE_SIM_MEMORY", 1 << 20)
        .with("SELVEDGE_SIM_DEVICES", 2)
        .with("SELVEDGE_SIM_FAIL", "cuMemsetD8_v2:2:700");
    let Some(_) = run.outside() else {
        let context = context();
        assert_eq!(CudaContext::device_count().unwrap(), 2);
        let at = alloc(1 << 19);
        assert_eq!(context.mem_get_info().unwrap(), (1 << 19, 1 << 20));
        let mut more = 0;
        let code = unsafe { sys::cuMemAlloc_v2(&raw mut more, (1 << 19) + 1) };
        assert_eq!(code, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let codes: Vec<_> = (0..3).map(|_| unsafe { sys::cuMemsetD8_v2(at, 0, 1) }).collect();
        assert_eq!(codes[1], CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(
            (codes[0], codes[2]),
            (CUresult::CUDA_SUCCESS, CUresult::CUDA_SUCCESS)
        );
        return;
    };
}

#[test]
fn without_devices_the_driver_says_so() {
    let Some(_) = Run::new("without_devices_the_driver_says_so")
        .with("SELVEDGE_SIM_DEVICES", 0)
        .outside()
    else {
        let refused = CudaContext::new(0).unwrap_err();
        assert_eq!(refused.0, CUresult::CUDA_ERROR_NO_DEVICE);
        assert!(format!("{refused:?}").contains("CUDA_ERROR_NO_DEVICE"));
        return;
    };
}

/// Runs a program with and without the edge: only the one without is wrong, whatever the timing of the threads.
fn write_and_read(ordered: bool) {
    let context = context();
    let (writer, reader) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let (from, to) = (alloc(4096), alloc(4096));
    fill(&writer, from, 1024, 1.0);
    if ordered {
        reader.join(&writer).unwrap();
    }
    unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, 4096, reader.cu_stream()) };
    context.synchronize().unwrap();
    assert_eq!(SIMULATOR.violations(), u64::from(!ordered));
    // Operations that the host has seen are ordered before those that it enqueues later.
    fill(&writer, to, 1024, 2.0);
    context.synchronize().unwrap();
    assert_eq!(SIMULATOR.violations(), u64::from(!ordered));
}

#[test]
fn what_an_event_orders_is_no_race() {
    let run = Run::new("what_an_event_orders_is_no_race").with("SELVEDGE_SIM_SEED", 1);
    let Some(ran) = run.outside() else {
        return write_and_read(true);
    };
    assert_eq!(ran.report, "");
}

#[test]
fn what_nothing_orders_is_a_race() {
    let run = Run::new("what_nothing_orders_is_a_race").with("SELVEDGE_SIM_SEED", 2);
    let Some(ran) = run.outside() else {
        return write_and_read(false);
    };
    assert_eq!(ran.report.lines().count(), 1, "{}", ran.report);
    assert!(
        ran.report.contains("\"race\"") && ran.report.contains("selvedge_fill_f32"),
        "{}",
        ran.report
    );
}

#[test]
fn freeing_what_is_in_use_is_told() {
    let Some(ran) = Run::new("freeing_what_is_in_use_is_told").outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let at = alloc(64);
        spin(&stream, 1);
        fill(&stream, at, 16, 1.0);
        unsafe { sys::cuMemFree_v2(at).result().unwrap() };
        assert_eq!(SIMULATOR.violations(), 1);
        SIMULATOR.release(1);
        context.synchronize().unwrap();
        let at = alloc(64);
        fill(&stream, at, 16, 1.0);
        stream.synchronize().unwrap();
        unsafe { sys::cuMemFree_v2(at).result().unwrap() };
        assert_eq!(SIMULATOR.violations(), 1);
        return;
    };
    assert!(ran.report.contains("free-in-use"));
}

#[test]
fn a_wait_is_for_the_last_record_called() {
    let Some(ran) = Run::new("a_wait_is_for_the_last_record_called").outside() else {
        let context = context();
        let (busy, idle) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let event = context.new_event(None).unwrap();
        idle.wait(&event).unwrap();
        spin(&busy, 1);
        event.record(&busy).unwrap();
        assert!(!event.is_complete());
        idle.synchronize().unwrap(); // the wait was called before the record
        idle.wait(&event).unwrap();
        assert_eq!(SIMULATOR.settle(), 0);
        assert!(SIMULATOR.stuck());
        SIMULATOR.release(1);
        assert_eq!(SIMULATOR.settle(), 1);
        assert!(!SIMULATOR.stuck());
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn streams_wait_for_values() {
    let Some(ran) = Run::new("streams_wait_for_values").outside() else {
        let context = context();
        let (writer, reader) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let (word, data, copy) = (alloc(8), alloc(64), alloc(64));
        unsafe {
            sys::cuStreamWaitValue32_v2(reader.cu_stream(), word, 1, 0)
                .result()
                .unwrap();
            sys::cuMemcpyDtoDAsync_v2(copy, data, 64, reader.cu_stream())
                .result()
                .unwrap();
            assert_eq!(SIMULATOR.settle(), 0);
            fill(&writer, data, 16, 3.0);
            sys::cuStreamWriteValue32_v2(writer.cu_stream(), word, 1, 0)
                .result()
                .unwrap();
            assert_eq!(SIMULATOR.settle(), 1);
            // Registered memory of the host: the host itself may end the wait.
            let mut page = vec![0_u32; 1024];
            sys::cuMemHostRegister_v2(page.as_mut_ptr().cast(), 4096, 2)
                .result()
                .unwrap();
            let at = from_mut(&mut page[0]);
            sys::cuStreamWaitValue32_v2(reader.cu_stream(), at as u64, 7, 0)
                .result()
                .unwrap();
            assert_eq!(SIMULATOR.settle(), 2);
            at.write_volatile(9);
            assert_eq!(SIMULATOR.settle(), 1);
            reader.synchronize().unwrap();
            sys::cuMemHostUnregister(at.cast()).result().unwrap();
        }
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn nothing_is_left_when_all_is_destroyed() {
    let Some(ran) = Run::new("nothing_is_left_when_all_is_destroyed").outside() else {
        let once = || {
            let context = context();
            let stream = context.new_stream().unwrap();
            let slice = stream.alloc_zeros::<f32>(100).unwrap();
            let event = stream.record_event(None).unwrap();
            let at = alloc(4096);
            context.default_stream().synchronize().unwrap();
            event.synchronize().unwrap();
            drop(slice);
            unsafe { sys::cuMemFree_v2(at).result().unwrap() };
            context.synchronize().unwrap();
        };
        once(); // opens the report, the timeline and the library
        let before = (threads(), descriptors());
        for _ in 0..20 {
            once();
        }
        returns_to(threads, before.0);
        assert_eq!(descriptors(), before.1);
        return;
    };
    assert_eq!(ran.report, "");
}

extern "C" fn tell(to: *mut std::ffi::c_void) {
    let sender = unsafe { Box::from_raw(to.cast::<std::sync::mpsc::Sender<()>>()) };
    sender.send(()).unwrap();
}

#[test]
fn who_is_told_by_a_host_function_is_ordered_after_it() {
    let Some(ran) = Run::new("who_is_told_by_a_host_function_is_ordered_after_it").outside() else {
        let context = context();
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let at = alloc(64);
        fill(&first, at, 16, 1.0);
        let (sender, told) = std::sync::mpsc::channel::<()>();
        let argument = Box::into_raw(Box::new(sender)).cast();
        unsafe {
            sys::cuLaunchHostFunc(first.cu_stream(), Some(tell), argument)
                .result()
                .unwrap()
        };
        told.recv().unwrap();
        fill(&second, at, 16, 2.0);
        context.synchronize().unwrap();
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn blocking_streams_keep_order_with_the_default_stream() {
    let test = "blocking_streams_keep_order_with_the_default_stream";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 6).outside() else {
        let context = context();
        let mut blocking = std::ptr::null_mut();
        unsafe { sys::cuStreamCreate(&raw mut blocking, 0).result().unwrap() };
        let at = alloc(64);
        let default = context.default_stream();
        for round in 0..10_u8 {
            fill(&default, at, 16, f32::from(round));
            unsafe { sys::cuMemsetD8Async(at, round, 64, blocking).result().unwrap() };
        }
        let mut byte = 0_u8;
        unsafe {
            sys::cuMemcpyDtoH_v2((&raw mut byte).cast(), at, 1)
                .result()
                .unwrap()
        };
        assert_eq!((byte, SIMULATOR.violations()), (9, 0));
        // A non-blocking stream is not ordered with the default stream.
        let free = context.new_stream().unwrap();
        fill(&default, at, 16, 1.0);
        fill(&free, at, 16, 2.0);
        assert_eq!(SIMULATOR.settle(), 1);
        assert_eq!(SIMULATOR.violations(), 1);
        unsafe { sys::cuStreamDestroy_v2(blocking).result().unwrap() };
        return;
    };
    assert_eq!(ran.report.lines().count(), 1);
}

#[test]
fn pinned_memory_is_read_when_the_stream_is_there() {
    let Some(ran) = Run::new("pinned_memory_is_read_when_the_stream_is_there").outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        let (at, mut page) = (alloc(8), std::ptr::null_mut());
        unsafe {
            sys::cuMemHostAlloc(&raw mut page, 8, 0).result().unwrap();
            let pinned = page.cast::<u32>();
            pinned.write(1);
            spin(&stream, 1);
            sys::cuMemcpyHtoDAsync_v2(at, page, 4, stream.cu_stream())
                .result()
                .unwrap();
            pinned.write(2); // the copy has not begun, so it copies this value
            SIMULATOR.release(1);
            stream.synchronize().unwrap();
            sys::cuMemcpyDtoHAsync_v2(page.cast::<u8>().add(4).cast(), at, 4, stream.cu_stream())
                .result()
                .unwrap();
            stream.synchronize().unwrap();
            assert_eq!(pinned.add(1).read(), 2);
            spin(&stream, 2);
            let pageable = Box::new(7_u32);
            sys::cuMemcpyHtoDAsync_v2(at, (&raw const *pageable).cast(), 4, stream.cu_stream())
                .result()
                .unwrap();
            drop(pageable); // the bytes were read before the call returned
            SIMULATOR.release(2);
            let mut back = 0_u32;
            stream.synchronize().unwrap();
            sys::cuMemcpyDtoH_v2((&raw mut back).cast(), at, 4)
                .result()
                .unwrap();
            assert_eq!(back, 7);
            sys::cuMemFreeHost(page).result().unwrap();
        }
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn devices_are_told_apart_and_may_lack_descriptors() {
    let run = Run::new("devices_are_told_apart_and_may_lack_descriptors")
        .with("SELVEDGE_SIM_DEVICES", 2)
        .with("SELVEDGE_SIM_DESCRIPTORS", 0);
    let Some(_) = run.outside() else {
        let contexts = [CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap()];
        let [first, second] = contexts.map(|context| context.uuid().unwrap().bytes);
        assert_ne!(first, second);
        let attribute =
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
        assert_eq!(context().attribute(attribute).unwrap(), 0);
        assert_eq!(
            CudaContext::new(2).unwrap_err().0,
            CUresult::CUDA_ERROR_INVALID_DEVICE
        );
        return;
    };
}
