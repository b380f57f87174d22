//! An output value of a task: a composite channel of at most three routes. These are a local value, a channel that moves
//! values, and a channel that encodes them. A message is written to all routes or to none: only the encoder can refuse a
//! value, so the encoder is first.
//!
//! - `OUT-1` an [`AnyOutlet`] is an [`Outlet<T>`] (the trait is sealed). An outlet begins with its head, which contains
//!   the `TypeId` of `T`.
#![allow(unsafe_code)] // casts an erased outlet to its head

use std::any::{TypeId, type_name};
use std::ptr;

use crate::dispose::dispose;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::kind::traits::Traits;
use crate::kind::{AnySink, Route, Sink};
use crate::payload::{Payload, is_plain};
use crate::port::devices::explained;
use crate::port::head::OutletHead;
use crate::port::schema::{Agreed, TensorSchema};
use crate::port::value::{AnyValue, Readiness, Value};

/// The routes of an output, type-erased.
pub struct Routes {
    /// The index of a local [`Value`] of the writer's lane.
    pub local: Option<usize>,
    /// The channels to the readers of other lanes and processes: at most one that moves its values, and at most one that
    /// encodes them.
    pub channels: Vec<Route>,
}

/// The writing end of a composite channel. A message is staged, then published on every route.
#[repr(C)]
pub struct Outlet<T: 'static> {
    // The first field (OUT-1).
    head: OutletHead,
    staged: Option<Message<T>>,
    /// The channel that moves its values.
    mover: Option<AnySink<T>>,
    /// The channel that encodes its values.
    encoder: Option<AnySink<T>>,
    /// The schema of the tensors in its values, if one is set.
    agreed: Option<Box<Agreed>>,
    traits: &'static Traits<T>,
}

mod sealed {
    /// A marker that only [`Outlet`](super::Outlet) implements (`OUT-1`).
    pub trait SealedOutlet {}

    impl<T: 'static> SealedOutlet for super::Outlet<T> {}
}

/// An [`Outlet`] with its type erased.
pub trait AnyOutlet: Send + sealed::SealedOutlet {
    /// Sets the schema of the tensors in its values. Values that violate it are refused.
    fn agree(&mut self, terms: TensorSchema);
    /// Stages a fault in place of the staged message, if there is one.
    fn stage_fault(&mut self, fault: Fault);
    /// Whether a message is staged.
    fn is_staged(&self) -> bool;
    /// Whether every route has a free slot. The fast path of `has_space`: `false` also in case of an error.
    fn is_open(&mut self) -> bool;
    /// Whether every route has a free slot.
    ///
    /// # Errors
    /// The errors of the routes.
    fn has_space(&mut self) -> Result<bool, ChannelError>;
    /// Publishes the staged message on all routes or on none. If the result is `Blocked`, it stays staged.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when no message is staged. [`ChannelError::Unread`] and [`ChannelError::WrongType`]
    /// when the local route does not accept it. [`ChannelError::TooLarge`], [`ChannelError::Encode`],
    /// [`ChannelError::Segment`], [`ChannelError::Device`], [`ChannelError::WrongDevice`] and
    /// [`ChannelError::StaticShape`] when the value cannot be written: it is on none of the routes, and a fault may be
    /// staged instead.
    /// All other errors of a route close all routes.
    fn publish(
        &mut self,
        execution: u64,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Readiness, ChannelError>;
    /// Closes every route.
    fn close(&mut self);
}

impl dyn AnyOutlet + '_ {
    #[inline]
    fn head(&self) -> &OutletHead {
        // SAFETY: `self` is an `Outlet<T>`, which is `repr(C)` and begins with its head (OUT-1).
        unsafe { &*ptr::from_ref(self).cast::<OutletHead>() }
    }

    /// The typed outlet, if its type is `T`.
    #[inline]
    pub fn typed_mut<T: Payload>(&mut self) -> Option<&mut Outlet<T>> {
        if self.head().id != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: `self` is an `Outlet<T>` for the type whose id is in its head (OUT-1); borrowed exclusively.
        Some(unsafe { &mut *ptr::from_mut(self).cast::<Outlet<T>>() })
    }

    /// Whether publishing runs no user code: there is at most one route, and the value is moved to it or written as
    /// plain bytes.
    #[inline]
    pub fn only_moves(&self) -> bool {
        self.head().only_moves
    }

    /// The index of the local value, if that is the only route and no schema is set. A result may then be put there
    /// directly, without staging and publishing it.
    #[inline]
    pub fn within(&self) -> Option<usize> {
        let head = self.head();
        if head.within { head.local } else { None }
    }
}

impl<T: Payload> Outlet<T> {
    pub(crate) fn new(
        local: Option<usize>,
        channels: Vec<AnySink<T>>,
        traits: &'static Traits<T>,
    ) -> Result<Self, ChannelError> {
        let routes = channels.len() + usize::from(local.is_some());
        let (mut mover, mut encoder) = (None, None);
        for channel in channels {
            let (place, how) = match channel.encodes() {
                true => (&mut encoder, "encode"),
                false => (&mut mover, "move"),
            };
            if place.replace(channel).is_some() {
                return Err(ChannelError::TooManyRoutes { how });
            }
        }
        if encoder.is_some() && !is_plain::<T>() {
            (traits.channel_codec()?.prepare)();
        }
        Ok(Outlet {
            head: OutletHead {
                id: TypeId::of::<T>(),
                local,
                within: local.is_some() && routes == 1,
                only_moves: routes <= 1 && (encoder.is_none() || is_plain::<T>()),
            },
            staged: None,
            mover,
            encoder,
            agreed: None,
            traits,
        })
    }

    fn channels(&mut self) -> impl Iterator<Item = &mut AnySink<T>> {
        self.mover.iter_mut().chain(&mut self.encoder)
    }

    /// A copy of a value, for another outlet.
    ///
    /// # Errors
    /// [`ChannelError::NotClone`].
    pub fn copy(&self, value: &T) -> Result<T, ChannelError> {
        self.traits.copy(value)
    }

    /// Stages a value.
    #[inline]
    pub fn stage(&mut self, value: T) {
        if let Some(agreed) = &mut self.agreed {
            agreed.forget();
        }
        dispose(self.staged.replace(Ok(value)));
    }

    /// Publishes `value` at once, if its only route is a channel with a free slot and no user code has to run. Else
    /// returns it (`FAST-1`).
    #[inline]
    pub fn try_put(&mut self, value: T) -> Option<T> {
        match &mut self.mover {
            Some(channel) if self.head.only_moves => channel.try_put(value),
            _ => self.try_encode(value),
        }
    }

    /// The part of `try_put` for values that are encoded.
    #[inline(never)]
    fn try_encode(&mut self, value: T) -> Option<T> {
        match &mut self.encoder {
            Some(channel) if self.head.only_moves => channel.try_put(value),
            _ => Some(value),
        }
    }

    /// Writes the message to the routes, which all have space: first to the encoder, which needs it only by reference.
    /// User code (`Clone`, `Serialize`) runs only while the message is staged and on no route, so a panic in user code
    /// leaves it staged.
    #[inline]
    fn write(&mut self, execution: u64, local: Option<&mut Value<T>>) -> Result<(), ChannelError> {
        let Some(staged) = &self.staged else {
            return Err(ChannelError::NoValue);
        };
        let mut copy = match (&self.mover, &local) {
            (Some(_), Some(_)) => Some(match staged {
                Ok(value) => Ok(self.traits.copy(value)?),
                Err(fault) => Err(fault.clone()),
            }),
            _ => None,
        };
        if let Some(encoder) = &mut self.encoder
            && !encoder.put_ref(staged.as_ref())?
        {
            return Err(ChannelError::Full);
        }
        let message = if copy.is_some() {
            &mut copy
        } else {
            &mut self.staged
        };
        if let Some(mover) = &mut self.mover
            && !mover.put(message)?
        {
            return Err(ChannelError::Full);
        }
        match (local, self.staged.take()) {
            (Some(local), Some(message)) => local.put(execution, message),
            (_, message) => {
                dispose(message);
                Ok(())
            }
        }
    }

    /// Returns the local route, if there is one, after a check that it is free.
    #[inline]
    fn local(
        local: Option<usize>,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Option<&mut Value<T>>, ChannelError> {
        let Some(index) = local else {
            return Ok(None);
        };
        let Some(value) = values.get_mut(index) else {
            return Err(ChannelError::NoValue);
        };
        let local = value.typed_mut::<T>();
        let local = local.ok_or_else(|| ChannelError::WrongType {
            expected: type_name::<T>(),
            found: "a local value of another type",
        })?;
        local.check_free()?;
        Ok(Some(local))
    }
}

impl<T: Payload> AnyOutlet for Outlet<T> {
    fn agree(&mut self, terms: TensorSchema) {
        self.agreed = Some(Box::new(Agreed::new(terms)));
        self.head.within = false;
        self.head.only_moves = false;
    }

    fn stage_fault(&mut self, fault: Fault) {
        if let Some(agreed) = &mut self.agreed {
            agreed.forget();
        }
        dispose(self.staged.replace(Err(fault)));
    }

    #[inline]
    fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    #[inline]
    fn is_open(&mut self) -> bool {
        self.channels()
            .all(|channel| matches!(channel.has_space(), Ok(true)))
    }

    #[inline]
    fn has_space(&mut self) -> Result<bool, ChannelError> {
        for channel in self.channels() {
            if !channel.has_space()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn publish(
        &mut self,
        execution: u64,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Readiness, ChannelError> {
        let Some(agreed) = &mut self.agreed else {
            return self.publish_staged(execution, values);
        };
        if let Some(Ok(value)) = &self.staged {
            agreed.check(value, self.traits)?;
        }
        let published = self.publish_staged(execution, values);
        if let (Ok(Readiness::Ready), Some(agreed)) = (&published, &mut self.agreed) {
            agreed.sent();
        }
        published
    }

    fn close(&mut self) {
        self.channels().for_each(Sink::close);
    }
}

impl<T: Payload> Outlet<T> {
    /// Publishes the staged message, which was checked against the schema.
    #[inline]
    fn publish_staged(
        &mut self,
        execution: u64,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Readiness, ChannelError> {
        if self.staged.is_none() {
            return Err(ChannelError::NoValue);
        }
        let published = match (self.head.local, &mut self.mover, &mut self.encoder) {
            (Some(_), None, None) => {
                // Within the lane: needs no free slot, and cannot fail halfway.
                if let (Some(local), Some(message)) =
                    (Self::local(self.head.local, values)?, self.staged.take())
                {
                    local.keep(execution, message);
                }
                return Ok(Readiness::Ready);
            }
            // One channel: it takes the message or leaves it staged.
            (None, Some(channel), None) | (None, None, Some(channel)) => channel.put(&mut self.staged),
            _ => match self.has_space() {
                Ok(true) => {
                    let local = Self::local(self.head.local, values)?;
                    self.write(execution, local).map(|()| true)
                }
                blocked => blocked,
            },
        };
        match published {
            Ok(true) => Ok(Readiness::Ready),
            Ok(false) => Ok(Readiness::Blocked),
            Err(error) => {
                if !error.refuses_value() || !self.is_staged() {
                    // COMP-07: a route that fails closes the others, and nothing follows a message that was published
                    // on some routes only.
                    self.close();
                }
                Err(explained(error))
            }
        }
    }
}
