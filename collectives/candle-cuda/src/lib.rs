//! Tensors of candle on a GPU to and from tensors of selvedge on the same GPU: one copy on the device each way, ordered by
//! events, while the host goes on. `README.md` says what of it has been run.
//!
//! Both libraries use the device's primary context. The copy runs on a stream of selvedge's, between two events:
//!
//! ```text
//! candle's stream   … writes the tensor ─ e ···························· waits for r ─ goes on, or frees it
//! our stream                              └ waits for e ─ copies ─ r ──┘
//! ```
//!
//! So candle's memory outlives the copy, whose frees are ordered by its stream, and so does ours, which counts its own streams.
#![allow(unsafe_code)] // calls the driver

use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{
    CudaStream, CudaView, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, result, sys,
};
use candle_core::cuda_backend::{CudaDType, CudaDevice, CudaStorage};
use candle_core::op::BackpropOp;
use candle_core::{DType, Device, Storage, Tensor, WithDType};
use selvedge_channels::device::{DeviceError, DeviceMemory, DeviceTensor, Stream, TensorLayout};
use selvedge_channels::{DType as OurDType, TensorError};

/// Why a tensor does not come over.
#[derive(Debug)]
#[non_exhaustive]
pub enum BridgeError {
    /// What candle says.
    Candle(candle_core::Error),
    /// What the driver says to candle's binding of it.
    Driver(DriverError),
    /// What selvedge's device says.
    Device(DeviceError),
    /// A layout that cannot be counted.
    Tensor(TensorError),
    /// It is not on the stream's device.
    Elsewhere {
        /// The stream's device, as the process counts them.
        expected: u32,
        /// Where it is.
        found: String,
    },
    /// It is not row-major and contiguous: `Tensor::contiguous` makes it so.
    Strides,
    /// The other library has no such elements.
    DType(String),
}

impl std::fmt::Display for BridgeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BridgeError::Candle(error) => write!(f, "candle: {error}"),
            BridgeError::Driver(error) => write!(f, "the driver: {error:?}"),
            BridgeError::Device(error) => write!(f, "{error}"),
            BridgeError::Tensor(error) => write!(f, "{error}"),
            BridgeError::Elsewhere { expected, found } => {
                write!(f, "the tensor is on {found}, and the stream on device {expected}")
            }
            BridgeError::Strides => f.write_str("the tensor is not contiguous: make it so first"),
            BridgeError::DType(name) => write!(f, "elements of type {name} are not known on the other side"),
        }
    }
}

impl std::error::Error for BridgeError {}

impl From<candle_core::Error> for BridgeError {
    fn from(error: candle_core::Error) -> Self {
        BridgeError::Candle(error)
    }
}

impl From<DriverError> for BridgeError {
    fn from(error: DriverError) -> Self {
        BridgeError::Driver(error)
    }
}

impl From<DeviceError> for BridgeError {
    fn from(error: DeviceError) -> Self {
        BridgeError::Device(error)
    }
}

impl From<TensorError> for BridgeError {
    fn from(error: TensorError) -> Self {
        BridgeError::Tensor(error)
    }
}

/// Runs a generic function for the elements of a type of candle's.
macro_rules! by_dtype {
    ($dtype:expr, $run:ident($($argument:expr),*)) => {
        match $dtype {
            DType::U8 => $run::<u8>($($argument),*),
            DType::U32 => $run::<u32>($($argument),*),
            DType::I16 => $run::<i16>($($argument),*),
            DType::I32 => $run::<i32>($($argument),*),
            DType::I64 => $run::<i64>($($argument),*),
            DType::BF16 => $run::<half::bf16>($($argument),*),
            DType::F16 => $run::<half::f16>($($argument),*),
            DType::F32 => $run::<f32>($($argument),*),
            DType::F64 => $run::<f64>($($argument),*),
            other => Err(BridgeError::DType(format!("{other:?}"))),
        }
    };
}

/// The types of elements that both know.
const TYPES: [(DType, OurDType); 9] = [
    (DType::U8, OurDType::U8),
    (DType::U32, OurDType::U32),
    (DType::I16, OurDType::I16),
    (DType::I32, OurDType::I32),
    (DType::I64, OurDType::I64),
    (DType::BF16, OurDType::BF16),
    (DType::F16, OurDType::F16),
    (DType::F32, OurDType::F32),
    (DType::F64, OurDType::F64),
];

/// A contiguous tensor of candle's as one of selvedge's, by a copy that `stream` is told to make behind all that candle has
/// enqueued by now.
///
/// # Errors
/// [`BridgeError`]; nothing has changed.
pub fn from_candle(tensor: &Tensor, stream: &Stream) -> Result<DeviceTensor, BridgeError> {
    let (dtype, shape) = (tensor.dtype(), tensor.dims().to_vec());
    let known = TYPES.iter().find(|(theirs, _)| *theirs == dtype);
    let (_, ours) = known.ok_or_else(|| BridgeError::DType(format!("{dtype:?}")))?;
    let layout = TensorLayout::new(*ours, shape)?;
    by_dtype!(dtype, copied_from(tensor, layout, stream))
}

fn copied_from<T: CudaDType + DeviceRepr + WithDType>(
    tensor: &Tensor,
    layout: TensorLayout,
    stream: &Stream,
) -> Result<DeviceTensor, BridgeError> {
    let (storage, place) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        return Err(elsewhere(tensor.device(), stream));
    };
    check_same(tensor.device(), &storage.device, stream)?;
    let (from, to) = place.contiguous_offsets().ok_or(BridgeError::Strides)?;
    let slice = storage.as_cuda_slice::<T>()?;
    let whole = slice.try_slice(from..to);
    let view: CudaView<'_, T> = whole.ok_or(BridgeError::Strides)?;
    let theirs = storage.device.cuda_stream();
    let bytes = layout.len_bytes();
    let mut memory = DeviceMemory::new(stream.gpu(), bytes)?;
    // Waits, on their stream, for whoever writes it; its guard says there that it was read.
    let (address, guard) = view.device_ptr(&theirs);
    after(stream, &theirs)?;
    copy(memory.span_mut(0, bytes)?.address(), address, bytes, stream)?;
    let copied = DeviceTensor::written(memory, layout, stream)?;
    before(&theirs, &copied)?;
    drop(guard);
    Ok(copied)
}

/// A tensor of selvedge's as one of candle's on `device`, by a copy that `stream` is told to make behind what makes the tensor
/// ready. What candle enqueues from now on comes behind it.
///
/// # Errors
/// [`BridgeError`]; nothing has changed.
pub fn to_candle(tensor: &DeviceTensor, device: &CudaDevice, stream: &Stream) -> Result<Tensor, BridgeError> {
    let dtype = tensor.layout().dtype();
    let known = TYPES.iter().find(|(_, ours)| *ours == dtype);
    let (theirs, _) = known.ok_or_else(|| BridgeError::DType(format!("{dtype:?}")))?;
    check_same(&Device::Cuda(device.clone()), device, stream)?;
    by_dtype!(*theirs, copied_to(tensor, device, stream))
}

fn copied_to<T: CudaDType + DeviceRepr + WithDType>(
    tensor: &DeviceTensor,
    device: &CudaDevice,
    stream: &Stream,
) -> Result<Tensor, BridgeError> {
    let shape = tensor.layout().shape().to_vec();
    let theirs = device.cuda_stream();
    // SAFETY: written in full by the copy below, behind which all that candle does with it is ordered.
    let mut slice = unsafe { device.alloc::<T>(shape.iter().product()) }?;
    let bytes = tensor.layout().len_bytes();
    let (address, guard) = slice.device_ptr_mut(&theirs);
    stream.order_after(tensor.ready())?;
    after(stream, &theirs)?;
    copy(address, tensor.span()?.address(), bytes, stream)?;
    // The copy is done with our tensor when our stream is, which its memory is counted by.
    let done = stream.mark()?;
    wait(theirs.cu_stream(), done.as_raw().cast())?;
    drop(guard);
    let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(slice, device.clone()));
    Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
}

fn elsewhere(found: &Device, stream: &Stream) -> BridgeError {
    BridgeError::Elsewhere {
        expected: stream.gpu().index(),
        found: format!("{:?}", found.location()),
    }
}

/// Refuses what is on another device, and makes it the thread's current one.
fn check_same(device: &Device, cuda: &CudaDevice, stream: &Stream) -> Result<(), BridgeError> {
    if cuda.cuda_stream().context().ordinal() != stream.gpu().index() as usize {
        return Err(elsewhere(device, stream));
    }
    Ok(stream.gpu().bind()?)
}

/// Orders our stream behind all that is enqueued on candle's.
fn after(ours: &Stream, theirs: &Arc<CudaStream>) -> Result<(), BridgeError> {
    let event = theirs.record_event(None)?;
    wait(ours.as_raw().cast(), event.cu_event())
}

/// Orders candle's stream behind our tensor.
fn before(theirs: &Arc<CudaStream>, tensor: &DeviceTensor) -> Result<(), BridgeError> {
    wait(theirs.cu_stream(), tensor.ready().as_raw().cast())
}

fn wait(stream: sys::CUstream, event: sys::CUevent) -> Result<(), BridgeError> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: a stream and an event of the device's primary context, both of which the callers hold; what is ordered behind an
    // event stays so when the event is destroyed.
    Ok(unsafe { result::stream::wait_event(stream, event, flags) }?)
}

/// Enqueues a copy on our stream.
fn copy(to: u64, from: u64, bytes: usize, stream: &Stream) -> Result<(), BridgeError> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: so many bytes at both, of the device's primary context. Ours stay until our streams are done with them; candle's
    // are freed in the order of its own stream, which is ordered behind this copy before anybody can drop them.
    Ok(unsafe { result::memcpy_dtod_async(to, from, bytes, stream.as_raw().cast()) }?)
}
