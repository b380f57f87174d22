//! What a lane knows of a contribution's type at run time. The types are found by a link-time registry, because a worker
//! process has plain data only.

use std::any::{TypeId, type_name};

use selvedge_channels::{
    AnyOutlet, AnyValue, ChannelError, Outlet, PayloadType, Tensor, TensorError, Value, Wire,
};
use selvedge_collectives::{Contribute, Part};

/// Who is shown the arrays of a value.
type Read<'a> = &'a mut dyn FnMut(&[Part<'_>]);

/// How values of one type are contributed, and made of results.
#[derive(Clone, Copy)]
pub struct Adapter {
    id: fn() -> TypeId,
    contribute: fn(&dyn AnyValue, Read<'_>) -> Result<(), ChannelError>,
    deliver: fn(&mut dyn AnyOutlet, Vec<Tensor>) -> Result<(), TensorError>,
    pass: fn(&mut dyn AnyValue, &mut dyn AnyOutlet) -> Result<(), ChannelError>,
}

/// Types of users that graphs can contribute to collectives.
#[allow(unsafe_code)] // a place in the binary, by `linkme`
#[linkme::distributed_slice]
pub static CONTRIBUTORS: [Adapter];

impl Adapter {
    /// For values of type `T`.
    pub const fn of<T: Wire + Contribute>() -> Self {
        Adapter {
            id: TypeId::of::<T>,
            contribute: contribute::<T>,
            deliver: deliver::<T>,
            pass: pass::<T>,
        }
    }

    /// Shows the arrays of a value.
    pub(crate) fn contribute(
        &self,
        value: &dyn AnyValue,
        read: &mut dyn FnMut(&[Part<'_>]),
    ) -> Result<(), ChannelError> {
        (self.contribute)(value, read)
    }

    /// Stages the value that is made of a result.
    pub(crate) fn deliver(&self, outlet: &mut dyn AnyOutlet, parts: Vec<Tensor>) -> Result<(), TensorError> {
        (self.deliver)(outlet, parts)
    }

    /// Stages the contribution itself.
    pub(crate) fn pass(
        &self,
        value: &mut dyn AnyValue,
        outlet: &mut dyn AnyOutlet,
    ) -> Result<(), ChannelError> {
        (self.pass)(value, outlet)
    }
}

/// How values of a type are contributed.
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

fn contribute<T: Wire + Contribute>(
    value: &dyn AnyValue,
    read: &mut dyn FnMut(&[Part<'_>]),
) -> Result<(), ChannelError> {
    let typed = value.as_any().downcast_ref::<Value<T>>();
    let typed = typed.ok_or_else(|| wrong::<T>(value.payload_type().name()))?;
    typed.get()?.parts(read);
    Ok(())
}

fn outlet<T: Wire>(outlet: &mut dyn AnyOutlet) -> Option<&mut Outlet<T>> {
    outlet.as_any_mut().downcast_mut::<Outlet<T>>()
}

fn deliver<T: Wire + Contribute>(to: &mut dyn AnyOutlet, parts: Vec<Tensor>) -> Result<(), TensorError> {
    let value = T::from_parts(parts)?;
    if let Some(outlet) = outlet::<T>(to) {
        outlet.stage(value);
    }
    Ok(())
}

fn pass<T: Wire>(value: &mut dyn AnyValue, to: &mut dyn AnyOutlet) -> Result<(), ChannelError> {
    let found = value.payload_type().name();
    let typed = value.as_any_mut().downcast_mut::<Value<T>>();
    let value = typed.ok_or_else(|| wrong::<T>(found))?.take()?;
    if let Some(outlet) = outlet::<T>(to) {
        outlet.stage(value);
    }
    Ok(())
}

macro_rules! known {
    ($($type:ty),+) => {
        /// The types that need not be made known.
        static KNOWN: &[Adapter] = &[$(Adapter::of::<$type>()),+];
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
