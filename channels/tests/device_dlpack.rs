//! Tensors on a device to and from DLPack, with capsules made by hand. The tests use the driver that `tests/driver`
//! finds.
#![cfg(all(feature = "cuda", feature = "dlpack", not(any(miri, loom))))]
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block
)] // a test may panic, and acts as another framework

mod driver;

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use selvedge_channels::device::{
    DeviceDlPack, DeviceError, DeviceMemory, DeviceTensor, Stream, TensorLayout, reclaim,
};
use selvedge_channels::dlpack::{
    CPU, CUDA, DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, READ_ONLY,
};
use selvedge_channels::{DType, DlPackError, Tensor};

use driver::{LONG, SpinKernel, free_bytes, gpu, is_alone, no_violations, passes_alone, simulator, tensor};

/// A tensor of another framework, in memory of its own.
struct Foreign {
    _memory: DeviceMemory,
    deleted: Arc<AtomicUsize>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    managed: DLManagedTensorVersioned,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the pointer is the box that `capsule` below has leaked, and the deleter runs once.
    let foreign = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    foreign.deleted.fetch_add(1, Ordering::Relaxed);
}

/// A capsule of six 32-bit numbers, which begin at byte 8 and are written on `stream`.
fn capsule(
    stream: &Stream,
    deleted: &Arc<AtomicUsize>,
    change: impl FnOnce(&mut DLManagedTensorVersioned, &mut Vec<i64>, &mut Vec<i64>),
) -> DeviceDlPack {
    let mut memory = DeviceMemory::new(stream.gpu(), 32).unwrap();
    let host: Vec<u8> = (0_u32..8).flat_map(|at| (at * 11).to_ne_bytes()).collect();
    stream.upload(memory.span_mut(0, 32).unwrap(), &host).unwrap();
    let managed = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 7 },
        manager_ctx: null_mut(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor: DLTensor {
            data: without_provenance_mut(memory.address() as usize),
            device: DLDevice {
                device_type: CUDA,
                device_id: stream.gpu().index() as i32,
            },
            ndim: 2,
            dtype: DLDataType {
                code: 1,
                bits: 32,
                lanes: 1,
            },
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 8,
        },
    };
    let foreign = Box::into_raw(Box::new(Foreign {
        _memory: memory,
        deleted: Arc::clone(deleted),
        shape: vec![2, 3],
        strides: vec![3, 1],
        managed,
    }));
    // SAFETY: the box was made just now; the vectors do not move after `change`.
    unsafe {
        let Foreign {
            shape,
            strides,
            managed,
            ..
        } = &mut *foreign;
        change(managed, shape, strides);
        managed.manager_ctx = foreign.cast();
        managed.dl_tensor.ndim = shape.len() as i32;
        managed.dl_tensor.shape = shape.as_mut_ptr();
        managed.dl_tensor.strides = strides.as_mut_ptr();
        DeviceDlPack::from_raw(managed).unwrap()
    }
}

#[test]
fn a_capsule_of_another_framework_is_read_where_it_lies() {
    let Some(gpu) = gpu() else { return };
    if !is_alone() {
        // A dropped tensor waits for the streams of every test of this process.
        return passes_alone("a_capsule_of_another_framework_is_read_where_it_lies", &[]);
    }
    let (theirs, ours) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let deleted = Arc::new(AtomicUsize::new(0));
    let pack = capsule(&theirs, &deleted, |_, _, _| {});
    let address = pack.tensor().unwrap().data.addr() as u64 + 8;
    // `__dlpack__(stream = ...)` makes the producer do this.
    ours.order_after(&theirs.mark().unwrap()).unwrap();
    let taken = DeviceTensor::from_dlpack(pack, &ours).unwrap();
    assert_eq!(taken.layout(), &TensorLayout::new(DType::U32, [2, 3]).unwrap());
    assert_eq!(taken.span().unwrap().address(), address);
    let reads = Stream::compute(&gpu).unwrap();
    let host = taken.download(&reads, LONG).unwrap();
    assert_eq!(host.to_vec::<u32>().unwrap(), [22, 33, 44, 55, 66, 77]);
    assert_eq!(deleted.load(Ordering::Relaxed), 0);
    drop(taken.clone());
    drop(taken);
    reads.wait(LONG).unwrap();
    ours.wait(LONG).unwrap();
    theirs.wait(LONG).unwrap();
    reclaim();
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
    no_violations();
}

#[test]
fn what_cannot_be_taken_over_is_refused_by_name_and_deleted() {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::compute(&gpu).unwrap();
    type Change = fn(&mut DLManagedTensorVersioned, &mut Vec<i64>, &mut Vec<i64>);
    type Is = fn(&DlPackError) -> bool;
    let wrong: [(Change, Is); 7] = [
        (
            |it, _, _| it.version.major = 2,
            |error| matches!(error, DlPackError::Version { major: 2, minor: 7 }),
        ),
        (
            |it, _, _| it.dl_tensor.device.device_type = CPU,
            |error| matches!(error, DlPackError::NotCuda { device_type: CPU }),
        ),
        (
            |it, _, _| it.dl_tensor.device.device_id = 63,
            |error| matches!(error, DlPackError::OnDevice(_)),
        ),
        (
            |it, _, _| it.dl_tensor.dtype.lanes = 4,
            |error| matches!(error, DlPackError::DType { lanes: 4, .. }),
        ),
        (
            |_, _, strides| *strides = vec![1, 2],
            |error| matches!(error, DlPackError::Strides { .. }),
        ),
        (
            |_, shape, _| *shape = vec![-1, 3],
            |error| matches!(error, DlPackError::Malformed { .. }),
        ),
        (
            |it, _, _| it.dl_tensor.data = null_mut(),
            |error| matches!(error, DlPackError::Malformed { .. }),
        ),
    ];
    for (change, is) in wrong {
        let deleted = Arc::new(AtomicUsize::new(0));
        let refused = DeviceTensor::from_dlpack(capsule(&stream, &deleted, change), &stream).unwrap_err();
        assert!(is(&refused), "{refused}");
        assert_eq!(deleted.load(Ordering::Relaxed), 1, "{refused}");
    }
    // SAFETY: a null pointer leads to no contents that the call would have to trust.
    assert!(unsafe { DeviceDlPack::from_raw(null_mut()) }.is_none());
}

#[test]
fn a_stream_that_is_another_on_each_thread_is_refused() {
    let Some(gpu) = gpu() else { return };
    // SAFETY: the call refuses this handle and never uses it.
    let refused = unsafe { Stream::foreign(&gpu, without_provenance_mut(2)) }.unwrap_err();
    assert!(refused.to_string().contains("CU_STREAM_PER_THREAD"), "{refused}");
    assert!(refused.to_string().contains("`Stream::foreign`"), "{refused}");
    assert!(refused.to_string().contains("cuStreamCreate"), "{refused}");
    assert_eq!(refused, DeviceError::StreamPerThread { device: gpu.id() });
}

#[test]
fn a_tensor_on_a_device_goes_out_and_comes_back_without_a_copy() {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::compute(&gpu).unwrap();
    let sent = DeviceTensor::upload(&stream, &tensor(3, 1, 100)).unwrap();
    let address = sent.span().unwrap().address();
    let theirs = Stream::compute(&gpu).unwrap();
    // SAFETY: `theirs` lives longer than `reader`.
    let reader = Arc::new(unsafe { Stream::foreign(&gpu, theirs.as_raw()) }.unwrap());
    let pack = sent.into_dlpack(&reader).unwrap();
    // The pack passes through a raw pointer, as in a capsule.
    let raw = pack.into_raw();
    // SAFETY: the pointer was handed out just now, and to no other owner.
    let seen = unsafe { &*raw };
    assert_eq!((seen.version.major, seen.flags), (1, READ_ONLY));
    let (described, device_id) = (&seen.dl_tensor, gpu.index() as i32);
    let device_type = CUDA;
    assert_eq!(
        described.device,
        DLDevice {
            device_type,
            device_id
        }
    );
    assert_eq!(
        (described.data.addr() as u64, described.byte_offset),
        (address, 0)
    );
    // SAFETY: as above.
    let pack = unsafe { DeviceDlPack::from_raw(raw) }.unwrap();
    let back = DeviceTensor::from_dlpack(pack, &reader).unwrap();
    assert_eq!(back.span().unwrap().address(), address);
    let host = back.download(&reader, LONG).unwrap();
    assert_eq!(host.bytes(), tensor(3, 1, 100).bytes());
    let none = DeviceTensor::upload(&stream, &Tensor::zeros::<f32>(&[0, 4]).unwrap()).unwrap();
    let none = DeviceTensor::from_dlpack(none.into_dlpack(&reader).unwrap(), &reader).unwrap();
    assert_eq!(none.layout().shape(), [0, 4]);
    no_violations();
}

#[test]
fn what_is_deleted_while_the_reader_is_at_it_is_given_back_when_it_is_done() {
    if gpu().is_some() {
        passes_alone("deleted_while_read", &[]);
    }
}

#[test]
#[ignore = "a part of the test above"]
fn deleted_while_read() {
    let (Some(gpu), true) = (gpu(), is_alone()) else {
        return;
    };
    let (kernel, before) = (SpinKernel::load(&gpu), free_bytes(&gpu));
    let (writes, theirs) = (Stream::compute(&gpu).unwrap(), Stream::compute(&gpu).unwrap());
    let sent = DeviceTensor::upload(&writes, &tensor(1, 0, 1000)).unwrap();
    // SAFETY: `theirs` lives longer than `reader`.
    let reader = Arc::new(unsafe { Stream::foreign(&gpu, theirs.as_raw()) }.unwrap());
    kernel.spin(&theirs, 1);
    let pack = sent.into_dlpack(&reader).unwrap();
    drop((pack, reader));
    writes.wait(LONG).unwrap();
    let is_simulated = simulator().is_some();
    assert!(
        !is_simulated || free_bytes(&gpu) < before,
        "their stream has not come to it"
    );
    // The reverse: a capsule of theirs that our stream still reads.
    let deleted = Arc::new(AtomicUsize::new(0));
    let ours = Stream::compute(&gpu).unwrap();
    ours.order_after(&theirs.mark().unwrap()).unwrap();
    let taken = DeviceTensor::from_dlpack(capsule(&theirs, &deleted, |_, _, _| {}), &ours).unwrap();
    drop(taken);
    reclaim();
    assert_eq!(deleted.load(Ordering::Relaxed), 0);
    kernel.release(1);
    assert!(kernel.settle());
    assert_eq!(free_bytes(&gpu), before);
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
    no_violations();
}
