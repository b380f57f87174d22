//! Payload types at run time: makes typed ends from type-erased parts.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use crate::error::ChannelError;
use crate::kind::traits::{ErasedRing, Traits};
use crate::kind::{AnySink, AnySource, Inlet, Route, Sink, Source};
use crate::payload::{Payload, Wire, is_plain};
use crate::port::devices::{self, DeviceOperations, Devices};
use crate::port::familiar::familiar;
use crate::port::outlet::{AnyOutlet, Outlet, Routes};
use crate::port::value::{AnyValue, Value};
use crate::wait::doorbell::Doorbell;

/// Declares what a payload type does: the table of functions, which `Typed` fills for the type that it knows, and the methods of
/// [`PayloadType`].
macro_rules! operations {
    ($($(#[$doc:meta])+ fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        pub(super) trait Operations: DeviceOperations + Send + Sync {
            $(fn $name(&'static self, $($argument: $type),*) -> $result;)+
        }

        impl PayloadType {
            $(
                $(#[$doc])+
                pub fn $name(&self, $($argument: $type),*) -> $result {
                    self.0.$name($($argument),*)
                }
            )+
        }
    };
}

operations! {
    /// The name of the type.
    fn name() -> &'static str;

    /// The type's `TypeId`.
    fn id() -> TypeId;

    /// Whether values of the type travel between processes without running user code: numbers, `Vec`s of numbers, and
    /// text.
    fn is_plain() -> bool;

    /// Whether the type is known to be `Clone`, so that a value may have several readers.
    fn is_clone() -> bool;

    /// Whether the type is known to be `Clone` and `Sync`, so that a value may have readers in several threads.
    fn is_shared() -> bool;

    /// Whether the type is known to be [`Wire`], so that a value may cross processes.
    fn is_wire() -> bool;

    /// The size of a value itself in bytes, without the memory it points to.
    fn len_bytes() -> usize;

    /// Makes a ring of this type: a boxed `RingWriter` and its `RingReader`s.
    ///
    /// # Errors
    /// The errors of [`ring`](crate::ring()), and [`ChannelError::NotSync`] for several readers of a type that is not
    /// [shared](Self::is_shared).
    fn ring(slots: usize, writer: Doorbell, readers: Vec<Doorbell>) -> Result<ErasedRing, ChannelError>;

    /// Makes a lane's value that comes from `inlet` and is read `reads` times in every execution.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for a ring of another type, [`ChannelError::NotWire`] for a channel between processes
    /// if the type is not [wire](Self::is_wire), [`ChannelError::InvalidSpec`] if `reads` is 0.
    fn value(inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError>;

    /// Makes a value that is the same in every execution.
    ///
    /// # Errors
    /// [`ChannelError::Decode`] when the bytes are not a value of this type, [`ChannelError::NotWire`].
    fn constant(bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError>;

    /// Makes a value that is a copy of `value` in every execution.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`], [`ChannelError::NotClone`].
    fn copied(value: &dyn Any) -> Result<Box<dyn AnyValue>, ChannelError>;

    /// Encodes a value of this type.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`], [`ChannelError::NotWire`], [`ChannelError::Encode`].
    fn encode(value: &dyn Any) -> Result<Vec<u8>, ChannelError>;

    /// Makes an output that goes to `routes`.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for a ring of another type, [`ChannelError::NotWire`], [`ChannelError::TooManyRoutes`].
    fn outlet(routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError>;

    /// Whether values of the type may hold things with records, such as references to objects, and may cross processes. Values
    /// that carry device tensors too may not. The first call runs the trial of the type.
    fn has_records() -> bool;

    /// Whether values of the type may carry device tensors to other processes.
    fn carries_tensors() -> bool;
}

/// The type of a payload, as a value.
///
/// Equal types are equal, also if one of them was made from less knowledge of the type's traits than the other.
#[derive(Clone, Copy)]
pub struct PayloadType(pub(super) &'static dyn Operations);

/// A payload type: its traits, and its ways to and from devices.
pub(super) struct Typed<T> {
    pub(super) traits: Traits<T>,
    pub(super) devices: Devices<T>,
}

impl<T> Typed<T> {
    const fn new(traits: Traits<T>, devices: Devices<T>) -> Self {
        Typed { traits, devices }
    }
}

impl<T: Payload> Operations for Typed<T> {
    fn name(&'static self) -> &'static str {
        type_name::<T>()
    }

    fn id(&'static self) -> TypeId {
        TypeId::of::<T>()
    }

    fn len_bytes(&'static self) -> usize {
        size_of::<T>()
    }

    fn is_plain(&'static self) -> bool {
        is_plain::<T>()
    }

    fn is_clone(&'static self) -> bool {
        self.traits.clone.is_some()
    }

    fn is_shared(&'static self) -> bool {
        self.traits.is_shared
    }

    fn is_wire(&'static self) -> bool {
        self.traits.codec.is_some()
    }

    fn carries_tensors(&'static self) -> bool {
        self.devices.carries()
    }

    fn has_records(&'static self) -> bool {
        let codec = self.traits.channel_codec.as_ref();
        !is_plain::<T>() && codec.is_some_and(|codec| (codec.has_records)())
    }

    fn ring(
        &'static self,
        slots: usize,
        writer: Doorbell,
        readers: Vec<Doorbell>,
    ) -> Result<ErasedRing, ChannelError> {
        (self.traits.ring)(slots, writer, readers)
    }

    fn value(&'static self, inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError> {
        let mut source = AnySource::<T>::typed(inlet, &self.traits)?;
        devices::accompany_source(&mut source, &self.devices);
        Ok(Box::new(Value::new(source, reads, self)?))
    }

    fn constant(&'static self, bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError> {
        let value = (self.traits.codec()?.decode)(bytes)?;
        Ok(Box::new(Value::constant(value, self)))
    }

    fn copied(&'static self, value: &dyn Any) -> Result<Box<dyn AnyValue>, ChannelError> {
        let value = self.traits.copy(typed::<T>(value)?)?;
        Ok(Box::new(Value::constant(value, self)))
    }

    fn encode(&'static self, value: &dyn Any) -> Result<Vec<u8>, ChannelError> {
        let value = typed::<T>(value)?;
        Ok((self.traits.codec()?.encode)(value)?)
    }

    fn outlet(&'static self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError> {
        let channel = |route: Route| {
            let mut sink = AnySink::<T>::typed(route, &self.traits)?;
            devices::accompany_sink(&mut sink, &self.devices);
            Ok(sink)
        };
        let channels: Result<_, ChannelError> = routes.channels.into_iter().map(channel).collect();
        Ok(Box::new(Outlet::new(routes.local, channels?, &self.traits)?))
    }
}

fn typed<T: 'static>(value: &dyn Any) -> Result<&T, ChannelError> {
    value.downcast_ref().ok_or(ChannelError::WrongType {
        expected: type_name::<T>(),
        found: "a value of another type",
    })
}

impl PayloadType {
    /// The type `T`, which may cross processes.
    pub fn of<T: Wire>() -> Self {
        if devices::is_of_tensors::<T>() {
            return PayloadType::of_guests::<T>();
        }
        PayloadType(const { &Typed::<T>::new(Traits::WIRE, Devices::OF_WIRE) })
    }

    /// The type `T`, whose values may carry device tensors to other processes.
    pub(super) fn of_guests<T: Wire>() -> Self {
        PayloadType(const { &Typed::<T>::new(Traits::WIRE, Devices::OF_TENSORS) })
    }

    /// The type `T`, of which the caller knows nothing but that its values may be sent to another thread. The traits of
    /// common numbers and of text are known nevertheless.
    pub fn of_moved<T: Payload>() -> Self {
        if let Some(known) = familiar(TypeId::of::<T>()) {
            return known;
        }
        PayloadType(const { &Typed::<T>::new(Traits::MOVED, Devices::NONE) })
    }

    /// The type `T`, whose values may be cloned. They stay in their process.
    pub fn of_cloned<T: Payload + Clone>() -> Self {
        PayloadType(const { &Typed::<T>::new(Traits::CLONED, Devices::NONE) })
    }

    /// The type `T`, whose values several threads may read. They stay in their process.
    pub fn of_shared<T: Payload + Clone + Sync>() -> Self {
        PayloadType(const { &Typed::<T>::new(Traits::SHARED, Devices::NONE) })
    }

    /// Returns an error unless the type is known to be `Clone`.
    ///
    /// # Errors
    /// [`ChannelError::NotClone`].
    pub fn check_clone(&self) -> Result<(), ChannelError> {
        let type_name = self.name();
        self.is_clone()
            .then_some(())
            .ok_or(ChannelError::NotClone { type_name })
    }
}

impl PartialEq for PayloadType {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for PayloadType {}

impl fmt::Debug for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadType({})", self.name())
    }
}
