//! Conversion of candle's tensors on a GPU to and from selvedge's tensors on the same GPU: one copy on the device each
//! way, ordered by events, while the host goes on. `README.md` lists the parts that have been run.
//!
//! Both libraries use the device's primary context. The copy runs on one of selvedge's streams, between two events:
//!
//! ```text
//! candle's stream   … writes the tensor ─ e ···························· waits for r ─ goes on, or frees it
//! our stream                              └ waits for e ─ copies ─ r ──┘
//! ```
//!
//! Candle's memory outlives the copy, because its frees are ordered by its stream; selvedge's memory outlives the copy,
//! because selvedge tracks the streams that use it.
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

/// The reason why a tensor cannot be converted.
#[derive(Debug)]
#[non_exhaustive]
pub enum BridgeError {
    /// An error of candle.
    Candle(candle_core::Error),
    /// An error of the driver, reported through candle's binding.
    Driver(DriverError),
    /// An error of selvedge's device.
    Device(DeviceError),
    /// A layout whose size overflows.
    Tensor(TensorError),
    /// The tensor is not on the stream's device.
    WrongDevice {
        /// The index of the stream's device in this process.
        expected: u32,
        /// The tensor's location.
        found: String,
    },
    /// The tensor is not row-major and contiguous; `Tensor::contiguous` makes it so.
    Strides,
    /// The other library has no such type of elements.
    DType(String),
}

impl std::fmt::Display for BridgeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BridgeError::Candle(error) => write!(f, "candle: {error}"),
            BridgeError::Driver(error) => write!(f, "the driver: {error:?}"),
            BridgeError::Device(error) => write!(f, "{error}"),
            BridgeError::Tensor(error) => write!(f, "{error}"),
            BridgeError::WrongDevice { expected, found } => {
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

/// Runs a generic function for the element type of one of candle's tensors.
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

/// The element types that both libraries support.
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

/// Converts a contiguous tensor of candle to one of selvedge, by a copy on `stream`. The copy is ordered after all
/// operations that candle has enqueued by now.
///
/// # Errors
/// Returns a [`BridgeError`]; `tensor` is unchanged.
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
    // Makes their stream wait for the tensor's writer; the guard records the read on that stream when it is dropped.
    let (address, guard) = view.device_ptr(&theirs);
    after(stream, &theirs)?;
    copy(memory.span_mut(0, bytes)?.address(), address, bytes, stream)?;
    let copied = DeviceTensor::written(memory, layout, stream);
    let ordered = copied
        .map_err(BridgeError::from)
        .and_then(|copied| before(&theirs, &copied).map(|()| copied));
    if ordered.is_err() {
        // The copy is enqueued, and nothing keeps candle from freeing what it reads before it is done.
        std::mem::forget(tensor.clone());
    }
    drop(guard);
    ordered
}

/// Converts a tensor of selvedge to one of candle on `device`, by a copy on `stream`. The copy is ordered after the
/// tensor is ready, and operations that candle enqueues from now on are ordered after the copy.
///
/// # Errors
/// Returns a [`BridgeError`]; `tensor` is unchanged.
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
    // SAFETY: the copy below writes all of the memory, and everything that candle does with it is ordered after that
    // copy.
    let mut slice = unsafe { device.alloc::<T>(shape.iter().product()) }?;
    let bytes = tensor.layout().len_bytes();
    let (address, guard) = slice.device_ptr_mut(&theirs);
    stream.order_after(tensor.ready())?;
    after(stream, &theirs)?;
    copy(address, tensor.span()?.address(), bytes, stream)?;
    // The copy has read our tensor when our stream reaches this mark; the tensor's memory is kept until our stream is
    // done.
    let done = stream.mark().map_err(BridgeError::from);
    let ordered = done.and_then(|done| wait(theirs.cu_stream(), done.as_raw().cast()));
    drop(guard);
    if let Err(error) = ordered {
        // The copy is enqueued, and nothing keeps candle from using the memory for something else before it is done.
        std::mem::forget(slice);
        return Err(error);
    }
    let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(slice, device.clone()));
    Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
}

fn elsewhere(found: &Device, stream: &Stream) -> BridgeError {
    BridgeError::WrongDevice {
        expected: stream.gpu().index(),
        found: format!("{:?}", found.location()),
    }
}

/// Returns an error if the device is not the stream's; otherwise makes the stream's device current for this thread.
fn check_same(device: &Device, cuda: &CudaDevice, stream: &Stream) -> Result<(), BridgeError> {
    if cuda.cuda_stream().context().ordinal() != stream.gpu().index() as usize {
        return Err(elsewhere(device, stream));
    }
    Ok(stream.gpu().bind()?)
}

/// Orders our stream after all operations that are enqueued on candle's.
fn after(ours: &Stream, theirs: &Arc<CudaStream>) -> Result<(), BridgeError> {
    let event = theirs.record_event(None)?;
    wait(ours.as_raw().cast(), event.cu_event())
}

/// Orders candle's stream after our tensor is ready.
fn before(theirs: &Arc<CudaStream>, tensor: &DeviceTensor) -> Result<(), BridgeError> {
    wait(theirs.cu_stream(), tensor.ready().as_raw().cast())
}

fn wait(stream: sys::CUstream, event: sys::CUevent) -> Result<(), BridgeError> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: a stream and an event of the device's primary context, both of which the callers hold; operations that
    // are ordered after an event stay so when the event is destroyed.
    Ok(unsafe { result::stream::wait_event(stream, event, flags) }?)
}

/// Enqueues a copy on our stream.
fn copy(to: u64, from: u64, bytes: usize, stream: &Stream) -> Result<(), BridgeError> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: both addresses have `bytes` bytes, of the device's primary context. Ours stay until our streams are done
    // with them; candle's are freed in the order of its own stream, which is ordered after this copy before any owner
    // can drop them, or else are never freed.
    Ok(unsafe { result::memcpy_dtod_async(to, from, bytes, stream.as_raw().cast()) }?)
}
