//! Adapters: type-erased functions with which a lane contributes values to collectives and rebuilds values from
//! results. A link-time registry finds the adapter of a type, because a worker process receives only plain data.

use std::any::{TypeId, type_name};

#[cfg(feature = "cuda")]
use selvedge_channels::device::DeviceTensor;
use selvedge_channels::{AnyOutlet, AnyValue, ChannelError, PayloadType, Tensor, TensorError, Wire};
use selvedge_collectives::{Contribute, Part};

/// A callback that receives the arrays of a value.
type ReadFn<'a> = &'a mut dyn FnMut(&[Part<'_>]);

/// The functions that contribute values of one type and rebuild values from results.
#[derive(Clone, Copy)]
pub struct Adapter {
    id: fn() -> TypeId,
    /// Passes the arrays of a value to the callback.
    pub(crate) contribute: fn(&dyn AnyValue, ReadFn<'_>) -> Result<(), ChannelError>,
    /// Stages the value that is rebuilt from a result.
    pub(crate) deliver: fn(&mut dyn AnyOutlet, Vec<Tensor>) -> Result<(), TensorError>,
    /// Stages the contribution itself.
    pub(crate) pass: fn(&mut dyn AnyValue, &mut dyn AnyOutlet) -> Result<(), ChannelError>,
    /// Set if the values are tensors on a device.
    #[cfg(feature = "cuda")]
    pub(crate) on_device: Option<OnDevice>,
}

/// The functions that contribute device tensors and rebuild values from results without leaving the device.
#[cfg(feature = "cuda")]
#[derive(Clone, Copy)]
pub(crate) struct OnDevice {
    pub(crate) tensors: fn(&dyn AnyValue) -> Result<Vec<DeviceTensor>, ChannelError>,
    pub(crate) deliver: fn(&mut dyn AnyOutlet, Vec<DeviceTensor>) -> Result<(), ChannelError>,
}

/// The adapters of user-defined types that graphs can contribute to collectives.
#[allow(unsafe_code)] // `linkme` places the slice in a section of the binary
#[linkme::distributed_slice]
pub static CONTRIBUTORS: [Adapter];

impl Adapter {
    /// Returns the adapter for values of type `T`.
    pub const fn of<T: Wire + Contribute>() -> Self {
        Adapter {
            id: TypeId::of::<T>,
            contribute: contribute::<T>,
            deliver: deliver::<T>,
            pass: pass::<T>,
            #[cfg(feature = "cuda")]
            on_device: None,
        }
    }

    /// Returns the adapter for values that are tensors on a device.
    #[cfg(feature = "cuda")]
    const fn of_tensors<T: Wire + Contribute + OfTensors>() -> Self {
        Adapter {
            on_device: Some(OnDevice {
                tensors: |value| Ok(typed::<T>(value)?.tensors()),
                deliver: |to, tensors| {
                    stage(to, T::of(tensors).ok_or(ChannelError::NoValue)?);
                    Ok(())
                },
            }),
            ..Adapter::of::<T>()
        }
    }
}

/// Returns the adapter for values of a type.
pub(crate) fn find(payload: PayloadType) -> Option<&'static Adapter> {
    KNOWN
        .iter()
        .chain(CONTRIBUTORS.iter())
        .find(|adapter| (adapter.id)() == payload.id())
}

fn wrong<T>(found: &'static str) -> ChannelError {
    ChannelError::WrongType {
        expected: type_name::<T>(),
        found,
    }
}

fn typed<T: Wire>(value: &dyn AnyValue) -> Result<&T, ChannelError> {
    let typed = value.typed::<T>();
    typed
        .ok_or_else(|| wrong::<T>(value.payload_type().name()))?
        .get()
}

fn contribute<T: Wire + Contribute>(value: &dyn AnyValue, read: ReadFn<'_>) -> Result<(), ChannelError> {
    typed::<T>(value)?.parts(read);
    Ok(())
}

fn stage<T: Wire>(outlet: &mut dyn AnyOutlet, value: T) {
    if let Some(outlet) = outlet.typed_mut::<T>() {
        outlet.stage(value);
    }
}

fn deliver<T: Wire + Contribute>(to: &mut dyn AnyOutlet, parts: Vec<Tensor>) -> Result<(), TensorError> {
    stage(to, T::from_parts(parts)?);
    Ok(())
}

fn pass<T: Wire>(value: &mut dyn AnyValue, to: &mut dyn AnyOutlet) -> Result<(), ChannelError> {
    let found = value.payload_type().name();
    let typed = value.typed_mut::<T>();
    stage(to, typed.ok_or_else(|| wrong::<T>(found))?.take()?);
    Ok(())
}

/// A value that consists of tensors on a device.
#[cfg(feature = "cuda")]
trait OfTensors: Sized {
    fn tensors(&self) -> Vec<DeviceTensor>;
    fn of(tensors: Vec<DeviceTensor>) -> Option<Self>;
}

#[cfg(feature = "cuda")]
impl OfTensors for DeviceTensor {
    fn tensors(&self) -> Vec<DeviceTensor> {
        vec![self.clone()]
    }

    fn of(mut tensors: Vec<DeviceTensor>) -> Option<Self> {
        tensors.pop().filter(|_| tensors.is_empty())
    }
}

#[cfg(feature = "cuda")]
impl OfTensors for Vec<DeviceTensor> {
    fn tensors(&self) -> Vec<DeviceTensor> {
        self.clone()
    }

    fn of(tensors: Vec<DeviceTensor>) -> Option<Self> {
        Some(tensors)
    }
}

macro_rules! known {
    ($($type:ty),+) => {
        /// The adapters of built-in types, which need no registration.
        static KNOWN: &[Adapter] = &[
            #[cfg(feature = "cuda")]
            Adapter::of_tensors::<DeviceTensor>(),
            #[cfg(feature = "cuda")]
            Adapter::of_tensors::<Vec<DeviceTensor>>(),
            $(Adapter::of::<$type>()),+
        ];
    };
}

known!(
    Tensor,
    Vec<Tensor>,
    (),
    Vec<u8>,
    Vec<u16>,
    Vec<u32>,
    Vec<u64>,
    Vec<i8>,
    Vec<i16>,
    Vec<i32>,
    Vec<i64>,
    Vec<f32>,
    Vec<f64>,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64
);
