//! Payload types at run time: makes typed ends from type-erased parts.

use std::any::{TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;

use crate::error::ChannelError;
use crate::kind::{AnySink, AnySource, ErasedEnd, Inlet, Route, Sink, Source};
use crate::payload::{Wire, decode, is_plain};
use crate::port::devices::{self, DeviceOperations};
use crate::port::outlet::{AnyOutlet, Outlet, Routes};
use crate::port::value::{AnyValue, Value};
use crate::ring::ring;
use crate::wait::doorbell::Doorbell;

/// Both sides of a ring, type-erased: a `RingWriter<T>` and the `RingReader<T>`s.
pub type ErasedRing = (ErasedEnd, Vec<ErasedEnd>);

pub(super) trait Operations: DeviceOperations + Send + Sync {
    fn name(&self) -> &'static str;
    fn id(&self) -> TypeId;
    fn len_bytes(&self) -> usize;
    fn is_plain(&self) -> bool;
    fn ring(
        &self,
        slots: usize,
        writer: Doorbell,
        readers: Vec<Doorbell>,
    ) -> Result<ErasedRing, ChannelError>;
    fn value(&self, inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError>;
    fn constant(&self, bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError>;
    fn outlet(&self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError>;
    fn carries(&self) -> bool;
}

/// The type of a payload, as a value.
#[derive(Clone, Copy)]
pub struct PayloadType(pub(super) &'static dyn Operations);

/// A payload type. `TENSORS` is true if its values may carry device tensors to other processes.
pub(super) struct Typed<T, const TENSORS: bool>(PhantomData<fn() -> T>);

impl<T: Wire, const TENSORS: bool> Operations for Typed<T, TENSORS> {
    fn name(&self) -> &'static str {
        type_name::<T>()
    }

    fn id(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn len_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn is_plain(&self) -> bool {
        is_plain::<T>()
    }

    fn ring(
        &self,
        slots: usize,
        writer: Doorbell,
        readers: Vec<Doorbell>,
    ) -> Result<ErasedRing, ChannelError> {
        let (writer, readers) = ring::<T>(slots, writer, readers)?;
        let readers = readers.into_iter().map(|reader| Box::new(reader) as ErasedEnd);
        Ok((Box::new(writer), readers.collect()))
    }

    fn value(&self, inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError> {
        let mut source = AnySource::<T>::typed(inlet)?;
        if TENSORS {
            devices::accompany_source(&mut source);
        }
        Ok(Box::new(Value::new(source, reads)?))
    }

    fn constant(&self, bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError> {
        Ok(Box::new(Value::<T>::constant(decode::<T>(bytes)?)))
    }

    fn outlet(&self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError> {
        let channel = |route: Route| {
            let mut sink = AnySink::<T>::typed(route)?;
            if TENSORS {
                devices::accompany_sink(&mut sink);
            }
            Ok(sink)
        };
        let channels: Result<_, ChannelError> = routes.channels.into_iter().map(channel).collect();
        Ok(Box::new(Outlet::new(routes.local, channels?)?))
    }

    fn carries(&self) -> bool {
        TENSORS
    }
}

impl PayloadType {
    /// The type `T`.
    pub fn of<T: Wire>() -> Self {
        if devices::is_of_tensors::<T>() {
            return PayloadType::of_guests::<T>();
        }
        PayloadType(const { &Typed::<T, false>(PhantomData) })
    }

    /// The type `T`, whose values may carry device tensors to other processes.
    pub(super) fn of_guests<T: Wire>() -> Self {
        PayloadType(const { &Typed::<T, true>(PhantomData) })
    }

    /// The name of the type.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The type's `TypeId`.
    pub fn id(&self) -> TypeId {
        self.0.id()
    }

    /// Whether values of the type travel between processes without running user code: numbers, `Vec`s of numbers, and
    /// text.
    pub fn is_plain(&self) -> bool {
        self.0.is_plain()
    }

    /// The size of a value itself in bytes, without the memory it points to.
    pub fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Makes a ring of this type: a boxed `RingWriter` and its `RingReader`s.
    ///
    /// # Errors
    /// The errors of [`ring`].
    pub fn ring(
        &self,
        slots: usize,
        writer: Doorbell,
        readers: Vec<Doorbell>,
    ) -> Result<ErasedRing, ChannelError> {
        self.0.ring(slots, writer, readers)
    }

    /// Makes a lane's value that comes from `inlet` and is read `reads` times in every execution.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for a ring of another type, [`ChannelError::InvalidSpec`] if `reads` is 0.
    pub fn value(&self, inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError> {
        self.0.value(inlet, reads)
    }

    /// Makes a value that is the same in every execution.
    ///
    /// # Errors
    /// [`ChannelError::Decode`] when the bytes are not a value of this type.
    pub fn constant(&self, bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError> {
        self.0.constant(bytes)
    }

    /// Makes an output that goes to `routes`.
    ///
    /// # Errors
    /// [`ChannelError::WrongType`] for a ring of another type, [`ChannelError::TooManyRoutes`].
    pub fn outlet(&self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError> {
        self.0.outlet(routes)
    }

    /// Whether values of the type may carry device tensors to other processes.
    pub fn carries_tensors(&self) -> bool {
        self.0.carries()
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
