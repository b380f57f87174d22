//! Tensors of candle on a real GPU, to selvedge and back. These tests need a GPU; nothing simulates cuBLAS, which candle opens.
//!
//! A kernel keeps a stream busy until the test releases it, so what is asserted meanwhile does not depend on time.
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block
)] // a test may panic

use std::ffi::c_void;
use std::time::Duration;

use candle_core::cuda_backend::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{DType, Device, Tensor};
use selvedge_candle_cuda::{BridgeError, from_candle, to_candle};
use selvedge_channels::Tensor as OurTensor;
use selvedge_channels::device::{DeviceTensor, Gpu, Stream, reclaim};

/// More than any copy takes. A test that waits for so long fails.
const LONG: Duration = Duration::from_secs(30);

/// The first GPU, as both libraries see it.
struct Bench {
    cuda: CudaDevice,
    device: Device,
    gpu: Gpu,
    stream: Stream,
}

fn bench() -> Bench {
    let cuda = CudaDevice::new_with_stream(0).unwrap();
    let gpu = Gpu::open(0).unwrap();
    Bench {
        device: Device::Cuda(cuda.clone()),
        cuda,
        stream: Stream::communication(&gpu).unwrap(),
        gpu,
    }
}

impl Bench {
    fn sent(&self, tensor: &Tensor) -> DeviceTensor {
        from_candle(tensor, &self.stream).unwrap()
    }

    fn received(&self, tensor: &DeviceTensor) -> Tensor {
        to_candle(tensor, &self.cuda, &self.stream).unwrap()
    }

    /// The numbers of a tensor of selvedge's.
    fn numbers(&self, tensor: &DeviceTensor) -> Vec<f32> {
        tensor
            .download(&self.stream, LONG)
            .unwrap()
            .to_vec::<f32>()
            .unwrap()
    }

    fn free_bytes(&self) -> usize {
        self.gpu.memory_bytes().unwrap().0
    }
}

/// A kernel that spins until the host stores a number other than 0, and for a minute at most.
struct Spinner {
    kernel: sys::CUfunction,
    released: *mut u64,
}

const SPIN: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 released)
{
    .reg .u64 %at, %found, %begun, %now;
    .reg .pred %goes_on, %in_time;
    ld.param.u64 %at, [released];
    mov.u64 %begun, %globaltimer;
again:
    ld.volatile.global.u64 %found, [%at];
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begun;
    setp.eq.u64 %goes_on, %found, 0;
    setp.lt.u64 %in_time, %now, 60000000000;
    and.pred %goes_on, %goes_on, %in_time;
    @%goes_on bra again;
    ret;
}
";

impl Spinner {
    /// Keeps a stream of the bench's device busy.
    fn start(bench: &Bench, stream: sys::CUstream) -> Spinner {
        const PORTABLE_AND_MAPPED: u32 = 3;
        bench.gpu.bind().unwrap();
        // SAFETY: the image is PTX with an end, the module has the kernel, and the kernel has one parameter, the address of memory
        // that is never freed. The memory is fresh, so nobody reads it when it is written.
        unsafe {
            let module = result::module::load_data(SPIN.as_ptr().cast()).unwrap();
            let kernel = result::module::get_function(module, c"spin".to_owned()).unwrap();
            let released = result::malloc_host(8, PORTABLE_AND_MAPPED).unwrap().cast::<u64>();
            released.write(0);
            let spinner = Spinner { kernel, released };
            let mut address = released;
            let mut arguments = [(&raw mut address).cast::<c_void>()];
            result::launch_kernel(spinner.kernel, (1, 1, 1), (1, 1, 1), 0, stream, &mut arguments).unwrap();
            spinner
        }
    }

    fn release(&self) {
        // SAFETY: the memory is never freed; the kernel reads it as a volatile value.
        unsafe { self.released.write_volatile(1) };
    }
}

#[test]
fn every_type_comes_back_as_it_was() {
    let bench = bench();
    for dtype in [
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
    ] {
        // Candle has no casts from and to every type on the device; the host's do.
        let host = Tensor::arange(0_u32, 60, &Device::Cpu).unwrap();
        let host = host.reshape((3, 4, 5)).unwrap().to_dtype(dtype).unwrap();
        let there = host.to_device(&bench.device).unwrap();
        let ours = bench.sent(&there);
        assert_eq!(ours.layout().shape(), [3, 4, 5]);
        assert_eq!(ours.layout().len_bytes(), 60 * dtype.size_in_bytes());
        let back = bench.received(&ours);
        assert_eq!((back.dtype(), back.dims()), (dtype, &[3, 4, 5][..]));
        let back = back
            .to_device(&Device::Cpu)
            .unwrap()
            .to_dtype(DType::F64)
            .unwrap();
        let found = back.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let sent: Vec<f64> = (0..60).map(f64::from).collect();
        assert_eq!(found, sent, "{dtype:?}");
    }
}

#[test]
fn a_copy_waits_for_what_candle_has_enqueued_and_the_host_does_not() {
    let bench = bench();
    let ones = Tensor::ones((64, 64), DType::F32, &bench.device).unwrap();
    let theirs = bench.cuda.cuda_stream();
    let spinner = Spinner::start(&bench, theirs.cu_stream());
    let product = ones.matmul(&ones).unwrap();
    let ours = bench.sent(&product);
    assert!(!ours.ready().is_done().unwrap(), "candle has not computed it yet");
    drop((ones, product));
    spinner.release();
    assert_eq!(bench.numbers(&ours), vec![64.0; 64 * 64]);
}

#[test]
fn candle_computes_after_the_tensor_is_ready_and_the_host_does_not_wait() {
    let bench = bench();
    let numbers = OurTensor::from_vec((0..1000_u16).map(f32::from).collect(), &[1000]).unwrap();
    let busy = Stream::compute(&bench.gpu).unwrap();
    let spinner = Spinner::start(&bench, busy.as_raw().cast());
    let ours = DeviceTensor::upload(&busy, &numbers).unwrap();
    let doubled = (bench.received(&ours) * 2.0).unwrap();
    // Candle's tensor outlives this one.
    drop(ours);
    let end = bench.cuda.cuda_stream().record_event(None).unwrap();
    assert!(!end.is_complete(), "selvedge's stream has not written it yet");
    spinner.release();
    let expected: Vec<f32> = (0..1000_u16).map(|at| f32::from(at) * 2.0).collect();
    assert_eq!(doubled.to_vec1::<f32>().unwrap(), expected);
}

#[test]
fn memory_is_not_used_again_while_a_copy_reads_it() {
    let bench = bench();
    const LENGTH: usize = 1 << 20;
    let mut sent = Vec::new();
    for round in 0..200_u16 {
        // What is dropped at once is the memory of the next tensors of its library.
        let theirs = Tensor::full(f32::from(round), LENGTH, &bench.device).unwrap();
        let ours = bench.sent(&theirs);
        drop(theirs);
        let back = bench.received(&ours);
        drop(ours);
        sent.push((round, bench.sent(&(back + 0.5).unwrap())));
    }
    for (round, ours) in &sent {
        let found = bench.numbers(ours);
        let expected = f32::from(*round) + 0.5;
        assert!(found.iter().all(|number| *number == expected), "round {round}");
    }
}

#[test]
fn a_slice_a_scalar_and_nothing_go_too() {
    let bench = bench();
    let whole = Tensor::arange(0_f32, 40.0, &bench.device)
        .unwrap()
        .reshape((10, 4))
        .unwrap();
    let slice = bench.sent(&whole.narrow(0, 3, 2).unwrap());
    assert_eq!(
        bench.numbers(&slice),
        (12..20_u8).map(f32::from).collect::<Vec<_>>()
    );
    let slice = bench.received(&slice);
    assert_eq!(
        slice.to_vec2::<f32>().unwrap(),
        [[12.0, 13.0, 14.0, 15.0], [16.0, 17.0, 18.0, 19.0]]
    );
    let scalar = bench.sent(&Tensor::new(7_f32, &bench.device).unwrap());
    assert_eq!(bench.received(&scalar).to_scalar::<f32>().unwrap(), 7.0);
    let nothing = bench.sent(&Tensor::zeros((0, 4), DType::F32, &bench.device).unwrap());
    assert_eq!(bench.received(&nothing).dims(), [0, 4]);
}

#[test]
fn what_cannot_be_converted_is_an_error_and_stays_as_it_is() {
    let bench = bench();
    let whole = Tensor::arange(0_f32, 40.0, &bench.device)
        .unwrap()
        .reshape((10, 4))
        .unwrap();
    let turned = whole.t().unwrap();
    let error = from_candle(&turned, &bench.stream).unwrap_err();
    assert!(matches!(error, BridgeError::Strides), "{error}");
    assert_eq!(turned.get(0).unwrap().to_vec1::<f32>().unwrap()[9], 36.0);
    assert_eq!(bench.numbers(&bench.sent(&turned.contiguous().unwrap()))[1], 4.0);
    let elsewhere = Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap();
    let error = from_candle(&elsewhere, &bench.stream).unwrap_err();
    assert!(
        matches!(error, BridgeError::WrongDevice { expected: 0, .. }),
        "{error}"
    );
    let flags = OurTensor::from_vec(vec![1_u16, 0], &[2]).unwrap();
    let flags = DeviceTensor::upload(&bench.stream, &flags).unwrap();
    let error = to_candle(&flags, &bench.cuda, &bench.stream).unwrap_err();
    assert!(matches!(error, BridgeError::DType(_)), "{error}");
}

#[test]
fn nothing_is_left_on_the_device() {
    const LENGTH: usize = 1 << 20;
    let bench = bench();
    let round = |rounds: usize| {
        for _ in 0..rounds {
            let theirs = Tensor::ones(LENGTH, DType::F32, &bench.device).unwrap();
            bench.received(&bench.sent(&theirs)).to_vec1::<f32>().unwrap();
            reclaim();
        }
        bench.stream.wait(LONG).unwrap();
        reclaim();
        bench.free_bytes()
    };
    // What both libraries keep for the next tensors.
    let before = round(20);
    let after = round(500);
    assert!(
        before.abs_diff(after) < 64 << 20,
        "{before} and {after} bytes are free"
    );
}
