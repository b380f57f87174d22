//! Payload types at run time: makes typed ends from type-erased parts.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;

#[cfg(feature = "cuda")]
use crate::device::Crossing;
use crate::error::ChannelError;
use crate::payload::{Wire, decode, is_plain};
use crate::port::outlet::{AnyOutlet, Outlet, Routes};
use crate::port::value::{AnyValue, Inlet, Source, Value};
use crate::ring::{RingReader, RingWriter, ring};
use crate::wait::doorbell::Doorbell;

/// Both sides of a ring, type-erased: a `RingWriter<T>` and the `RingReader<T>`s.
pub type ErasedRing = (Box<dyn Any + Send>, Vec<Box<dyn Any + Send>>);

trait Operations: Send + Sync {
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
    #[cfg(feature = "cuda")]
    fn bring(
        &self,
        crossing: &mut Crossing,
        from: &dyn AnyValue,
        into: &mut dyn AnyValue,
        execution: u64,
    ) -> Result<bool, ChannelError>;
}

/// The type of a payload, as a value.
#[derive(Clone, Copy)]
pub struct PayloadType(&'static dyn Operations);

/// A payload type. `TENSORS` is true if its values may carry device tensors to other processes.
struct Typed<T, const TENSORS: bool>(PhantomData<fn() -> T>);

fn downcast<E: 'static>(end: Box<dyn Any + Send>) -> Result<E, ChannelError> {
    let wrong = ChannelError::WrongType {
        expected: type_name::<E>(),
        found: "an end of another type",
    };
    end.downcast::<E>().map(|end| *end).map_err(|_| wrong)
}

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
        let readers = readers
            .into_iter()
            .map(|reader| Box::new(reader) as Box<dyn Any + Send>);
        Ok((Box::new(writer), readers.collect()))
    }

    fn value(&self, inlet: Inlet, reads: u32) -> Result<Box<dyn AnyValue>, ChannelError> {
        let source = match inlet {
            Inlet::Local => Source::Local,
            Inlet::Ring(reader) => Source::Ring(downcast::<RingReader<T>>(reader)?),
            Inlet::Shared(reader) => Source::Shared(reader),
        };
        let value = Value::<T>::new(source, reads)?;
        #[cfg(feature = "cuda")]
        let value = if TENSORS { value.with_tensors() } else { value };
        Ok(Box::new(value))
    }

    fn constant(&self, bytes: &[u8]) -> Result<Box<dyn AnyValue>, ChannelError> {
        Ok(Box::new(Value::<T>::constant(decode::<T>(bytes)?)))
    }

    fn outlet(&self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError> {
        let ring = routes.ring.map(downcast::<RingWriter<T>>).transpose()?;
        let outlet = Outlet::<T>::new(routes.local, ring, routes.shared);
        #[cfg(feature = "cuda")]
        let outlet = if TENSORS { outlet.with_tensors() } else { outlet };
        Ok(Box::new(outlet))
    }

    fn carries(&self) -> bool {
        TENSORS
    }

    #[cfg(feature = "cuda")]
    fn bring(
        &self,
        crossing: &mut Crossing,
        from: &dyn AnyValue,
        into: &mut dyn AnyValue,
        execution: u64,
    ) -> Result<bool, ChannelError> {
        let wrong = ChannelError::WrongType {
            expected: type_name::<T>(),
            found: "a value of another type",
        };
        let (Some(from), Some(into)) = (from.typed::<T>(), into.typed_mut::<T>()) else {
            return Err(wrong);
        };
        let Some(brought) = crossing.bring_value(from.get()?)? else {
            return Ok(false);
        };
        into.abandon()?;
        into.put(execution, Ok(brought)).map(|()| true)
    }
}

impl PayloadType {
    /// The type `T`.
    pub fn of<T: Wire>() -> Self {
        #[cfg(feature = "cuda")]
        if crate::device::is_of_tensors::<T>() {
            return PayloadType::with_tensors::<T>();
        }
        PayloadType(const { &Typed::<T, false>(PhantomData) })
    }

    /// The type `T`, whose values may carry device tensors: between processes these travel out of band. Device tensors,
    /// and lists of them, are recognised without this call.
    #[cfg(feature = "cuda")]
    pub fn with_tensors<T: Wire>() -> Self {
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

    /// Makes a ring of this type: a boxed [`RingWriter`] and its [`RingReader`]s.
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
    /// [`ChannelError::WrongType`] for a ring of another type.
    pub fn outlet(&self, routes: Routes) -> Result<Box<dyn AnyOutlet>, ChannelError> {
        self.0.outlet(routes)
    }
}

impl PayloadType {
    /// Whether values of the type may carry device tensors to other processes.
    pub fn carries_tensors(&self) -> bool {
        self.0.carries()
    }

    /// Puts a copy of the value in `from` into the local value `into`, with its tensors copied to the device of
    /// `crossing`. Returns `false`, with nothing changed, if all its tensors are on that device already.
    ///
    /// # Errors
    /// [`ChannelError::Device`], [`ChannelError::WrongType`], and the errors of [`Value::get`].
    #[cfg(feature = "cuda")]
    pub fn bring(
        &self,
        crossing: &mut Crossing,
        from: &dyn AnyValue,
        into: &mut dyn AnyValue,
        execution: u64,
    ) -> Result<bool, ChannelError> {
        self.0.bring(crossing, from, into, execution)
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
