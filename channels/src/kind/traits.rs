//! Traits of payload types: the functions on values of a type beside moving them between threads.

use std::any::type_name;
use std::fmt;

use super::ErasedEnd;
use super::codec::{ChannelCodec, Codec};
use crate::error::ChannelError;
use crate::payload::{Payload, Wire};
use crate::ring::{RingReader, RingWriter, ring, ring_of_one, ring_of_one_cloned};
use crate::wait::doorbell::Doorbell;

/// Both sides of a ring, type-erased: a `RingWriter<T>` and the `RingReader<T>`s.
pub type ErasedRing = (ErasedEnd, Vec<ErasedEnd>);

/// Makes a ring with a reader for each of the last bells.
type MakeRing = fn(usize, Doorbell, Vec<Doorbell>) -> Result<ErasedRing, ChannelError>;

/// The traits of a payload type, as functions. Code that is generic over a [`Payload`] calls them where a value has to be
/// cloned, shared or encoded, and reports a type that has no such function.
pub struct Traits<T> {
    /// Clones a value, if the type is `Clone`.
    pub clone: Option<fn(&T) -> T>,
    /// Whether several threads may read a value at a time: the type is `Clone` and `Sync`.
    pub is_shared: bool,
    /// The codec of the type, if it is [`Wire`].
    pub codec: Option<Codec<T>>,
    /// Makes the ring of a channel within a process.
    pub(crate) ring: MakeRing,
    /// The codec of channels between processes, if the type is [`Wire`] and its values go through channels.
    pub(crate) channel_codec: Option<ChannelCodec<T>>,
}

impl<T> Traits<T> {
    /// The traits of a type whose values cannot even be moved to another thread.
    pub const NONE: Self = Traits {
        clone: None,
        is_shared: false,
        codec: None,
        ring: no_ring::<T>,
        channel_codec: None,
    };
}

impl<T: Payload> Traits<T> {
    /// The traits of a type that can only be moved.
    pub const MOVED: Self = Traits {
        ring: ring_of_moved::<T>,
        ..Traits::NONE
    };
}

impl<T: Payload + Clone> Traits<T> {
    /// The traits of a type that can be cloned.
    pub const CLONED: Self = Traits {
        clone: Some(T::clone),
        ring: ring_of_cloned::<T>,
        ..Traits::MOVED
    };
}

impl<T: Payload + Clone + Sync> Traits<T> {
    /// The traits of a type that can be cloned and that several threads may read.
    pub const SHARED: Self = Traits {
        clone: Some(T::clone),
        is_shared: true,
        ring: ring_of_shared::<T>,
        ..Traits::NONE
    };
}

impl<T: Wire> Traits<T> {
    /// The traits of a type that may cross processes.
    pub const WIRE: Self = Traits {
        codec: Some(Codec::OF_WIRE),
        channel_codec: Some(ChannelCodec::OF_WIRE),
        ..Traits::SHARED
    };
}

/// Values that are passed in calls and letters, and never through a channel. A program has none of the code of channels for such a type.
impl<T: Wire> Traits<T> {
    /// The traits of a type that may cross processes.
    pub const LETTER: Self = Traits {
        codec: Some(Codec::OF_WIRE),
        ..Traits::COPIED
    };
}

impl<T: Clone> Traits<T> {
    /// The traits of a type that can be cloned.
    pub const COPIED: Self = Traits {
        clone: Some(T::clone),
        ..Traits::NONE
    };
}

impl<T> Traits<T> {
    /// The codec of the type.
    ///
    /// # Errors
    /// [`ChannelError::NotWire`].
    pub fn codec(&self) -> Result<&Codec<T>, ChannelError> {
        self.codec.as_ref().ok_or(not_wire::<T>())
    }

    /// The codec of channels between processes.
    pub(crate) fn channel_codec(&self) -> Result<&ChannelCodec<T>, ChannelError> {
        self.channel_codec.as_ref().ok_or(not_wire::<T>())
    }

    /// A copy of a value.
    ///
    /// # Errors
    /// [`ChannelError::NotClone`].
    pub fn copy(&self, value: &T) -> Result<T, ChannelError> {
        match self.clone {
            Some(clone) => Ok(clone(value)),
            None => Err(ChannelError::NotClone {
                type_name: type_name::<T>(),
            }),
        }
    }
}

impl<T> fmt::Debug for Traits<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traits")
            .field("clone", &self.clone.is_some())
            .field("is_shared", &self.is_shared)
            .field("codec", &self.codec.is_some())
            .finish()
    }
}

fn not_wire<T>() -> ChannelError {
    ChannelError::NotWire {
        type_name: type_name::<T>(),
    }
}

fn no_ring<T>(_: usize, _: Doorbell, _: Vec<Doorbell>) -> Result<ErasedRing, ChannelError> {
    Err(ChannelError::NotSync {
        type_name: type_name::<T>(),
    })
}

fn ring_of_shared<T: Payload + Clone + Sync>(
    slots: usize,
    writer: Doorbell,
    readers: Vec<Doorbell>,
) -> Result<ErasedRing, ChannelError> {
    let (writer, readers) = ring::<T>(slots, writer, readers)?;
    let readers = readers.into_iter().map(|reader| Box::new(reader) as ErasedEnd);
    Ok((Box::new(writer), readers.collect()))
}

fn ring_of_cloned<T: Payload + Clone>(
    slots: usize,
    writer: Doorbell,
    readers: Vec<Doorbell>,
) -> Result<ErasedRing, ChannelError> {
    with_one_reader(ring_of_one_cloned::<T>, slots, writer, readers)
}

fn ring_of_moved<T: Payload>(
    slots: usize,
    writer: Doorbell,
    readers: Vec<Doorbell>,
) -> Result<ErasedRing, ChannelError> {
    with_one_reader(ring_of_one::<T>, slots, writer, readers)
}

/// Makes a ring with one reader.
type MakeRingOfOne<T> = fn(usize, Doorbell, Doorbell) -> Result<(RingWriter<T>, RingReader<T>), ChannelError>;

fn with_one_reader<T: Payload>(
    make: MakeRingOfOne<T>,
    slots: usize,
    writer: Doorbell,
    readers: Vec<Doorbell>,
) -> Result<ErasedRing, ChannelError> {
    let Ok([reader]) = <[Doorbell; 1]>::try_from(readers) else {
        return Err(ChannelError::NotSync {
            type_name: type_name::<T>(),
        });
    };
    let (writer, reader) = make(slots, writer, reader)?;
    Ok((Box::new(writer), vec![Box::new(reader)]))
}
