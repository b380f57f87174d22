//! An output value of a task: a composite channel with up to three routes. A message is written to all routes or to
//! none.
//!
//! - `OUT-1` an [`AnyOutlet`] is an [`Outlet<T>`] (the trait is sealed). An outlet begins with its head, which contains
//!   the `TypeId` of `T`.
#![allow(unsafe_code)] // casts an erased outlet to its head

use std::any::{Any, TypeId, type_name};
use std::ptr;

#[cfg(feature = "cuda")]
use crate::device::{OutOfBandWriter, explained};
use crate::dispose::dispose;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::payload::{Wire, is_plain, way_of};
use crate::port::head::OutletHead;
use crate::port::schema::{Agreed, TensorSchema};
use crate::port::value::{AnyValue, Readiness, Value};
use crate::ring::RingWriter;
use crate::shared::SharedWriter;

/// The routes of an output, type-erased.
pub struct Routes {
    /// The index of a local [`Value`] of the writer's lane.
    pub local: Option<usize>,
    /// The route to the readers of this process: a [`RingWriter`] of the value's type.
    pub ring: Option<Box<dyn Any + Send>>,
    /// The route to the readers of other processes.
    pub shared: Option<SharedWriter>,
}

/// The writing end of a composite channel. A message is staged, then published on every route.
#[repr(C)]
pub struct Outlet<T> {
    // The first field (OUT-1).
    head: OutletHead,
    staged: Option<Message<T>>,
    ring: Option<RingWriter<T>>,
    shared: Option<SharedRoute>,
    /// The schema of the tensors in its values, if one is set.
    agreed: Option<Box<Agreed>>,
}

/// The route to other processes.
struct SharedRoute {
    writer: SharedWriter,
    /// The sender of device tensors, which travel out of band.
    #[cfg(feature = "cuda")]
    out_of_band: Option<Box<OutOfBandWriter>>,
}

impl SharedRoute {
    #[inline]
    fn try_write<T: Wire>(&mut self, value: &T) -> Result<bool, ChannelError> {
        #[cfg(feature = "cuda")]
        if let Some(out_of_band) = &mut self.out_of_band {
            return out_of_band.write(&mut self.writer, value);
        }
        #[cfg(feature = "cuda")]
        return self.writer.try_write(value).map_err(explained);
        #[cfg(not(feature = "cuda"))]
        self.writer.try_write(value)
    }
}

mod sealed {
    /// A marker that only [`Outlet`](super::Outlet) implements (`OUT-1`).
    pub trait SealedOutlet {}

    impl<T> SealedOutlet for super::Outlet<T> {}
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
    pub fn typed_mut<T: Wire>(&mut self) -> Option<&mut Outlet<T>> {
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

impl<T: Wire> Outlet<T> {
    pub(crate) fn new(
        local: Option<usize>,
        ring: Option<RingWriter<T>>,
        shared: Option<SharedWriter>,
    ) -> Self {
        if shared.is_some() && !is_plain::<T>() {
            // Runs the trial of the type before its first value is sent.
            way_of::<T>();
        }
        Outlet {
            head: OutletHead {
                id: TypeId::of::<T>(),
                local,
                within: local.is_some() && ring.is_none() && shared.is_none(),
                only_moves: match (local.is_some(), ring.is_some(), shared.is_some()) {
                    (false, false, true) => is_plain::<T>(),
                    (true, true, _) | (_, _, true) => false,
                    _ => true,
                },
            },
            staged: None,
            ring,
            shared: shared.map(|writer| SharedRoute {
                writer,
                #[cfg(feature = "cuda")]
                out_of_band: None,
            }),
            agreed: None,
        }
    }

    /// Prepares the outlet to send device tensors to other processes out of band.
    #[cfg(feature = "cuda")]
    pub(crate) fn with_tensors(mut self) -> Self {
        if let Some(shared) = &mut self.shared {
            shared.out_of_band = Some(Box::default());
        }
        self
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
    /// returns it.
    #[inline]
    pub fn try_send(&mut self, value: T) -> Option<T> {
        match &mut self.ring {
            Some(ring) if self.head.only_moves => ring.send(value),
            Some(_) => Some(value),
            None => self.try_send_far(value),
        }
    }

    /// The part of `try_send` for values that go to other processes.
    #[inline(never)]
    fn try_send_far(&mut self, value: T) -> Option<T> {
        // `publish` reports an error of the channel again. A plain value contains no tensors, so none go out of band.
        match &mut self.shared {
            Some(shared) if self.head.only_moves => shared.writer.send(value),
            _ => Some(value),
        }
    }

    /// Writes the message to the routes, which all have space. The shared route is first, because only it can refuse
    /// the value, and needs it only by reference; then the value itself is moved. User code (`Clone`, `Serialize`) runs
    /// only while the message is staged, so a panic in user code leaves it staged.
    #[inline]
    fn write(&mut self, execution: u64, local: Option<&mut Value<T>>) -> Result<(), ChannelError> {
        let Some(staged) = &self.staged else {
            return Err(ChannelError::NoValue);
        };
        let copy = match (&self.ring, &local) {
            (Some(_), Some(_)) => Some(staged.clone()),
            _ => None,
        };
        if let Some(shared) = &mut self.shared {
            let written = match staged {
                Ok(value) => shared.try_write(value),
                Err(fault) => shared.writer.try_write_fault(fault),
            };
            if !written? {
                return Err(ChannelError::Full);
            }
        }
        let message = self.staged.take();
        match (&mut self.ring, local, message) {
            (None, None, message) => dispose(message),
            (Some(ring), None, Some(message)) => ring.try_write(message).map_err(|_| ChannelError::Full)?,
            (None, Some(local), Some(message)) => local.put(execution, message)?,
            (Some(ring), Some(local), Some(message)) => {
                if let Some(copy) = copy {
                    ring.try_write(copy).map_err(|_| ChannelError::Full)?;
                }
                local.put(execution, message)?;
            }
            (_, _, None) => return Err(ChannelError::NoValue),
        }
        Ok(())
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

impl<T: Wire> AnyOutlet for Outlet<T> {
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
        self.ring.as_mut().is_none_or(RingWriter::has_space)
            && self
                .shared
                .as_mut()
                .is_none_or(|shared| matches!(shared.writer.has_space(), Ok(true)))
    }

    #[inline]
    fn has_space(&mut self) -> Result<bool, ChannelError> {
        if let Some(ring) = &mut self.ring
            && !ring.has_space()
        {
            return if ring.is_closed() {
                Err(ChannelError::Closed)
            } else {
                Ok(false)
            };
        }
        self.shared
            .as_mut()
            .map_or(Ok(true), |shared| shared.writer.has_space())
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
            agreed.check(value)?;
        }
        let published = self.publish_staged(execution, values);
        if let (Ok(Readiness::Ready), Some(agreed)) = (&published, &mut self.agreed) {
            agreed.sent();
        }
        published
    }

    fn close(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.close();
        }
        if let Some(shared) = &mut self.shared {
            shared.writer.close();
        }
    }
}

impl<T: Wire> Outlet<T> {
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
        if let (Some(_), None, None) = (self.head.local, &self.ring, &self.shared) {
            // Within the lane: needs no free slot, and cannot fail halfway.
            if let (Some(local), Some(message)) = (Self::local(self.head.local, values)?, self.staged.take())
            {
                local.keep(execution, message);
            }
            return Ok(Readiness::Ready);
        }
        if let (None, Some(ring), None) = (self.head.local, &mut self.ring, &self.shared) {
            // One route within the process: it takes the message or leaves it unchanged.
            let Some(message) = self.staged.take() else {
                return Err(ChannelError::NoValue);
            };
            return Ok(match ring.try_write(message) {
                Ok(()) => Readiness::Ready,
                Err(back) => {
                    self.staged = Some(back);
                    if ring.is_closed() {
                        return Err(ChannelError::Closed);
                    }
                    Readiness::Blocked
                }
            });
        }
        match self.has_space() {
            Ok(true) => {}
            Ok(false) => return Ok(Readiness::Blocked),
            Err(error) => {
                // COMP-07: a route that fails closes the others.
                self.close();
                return Err(error);
            }
        }
        let local = Self::local(self.head.local, values)?;
        match self.write(execution, local) {
            Ok(()) => Ok(Readiness::Ready),
            Err(error) => {
                if !error.refuses_value() || !self.is_staged() {
                    // COMP-07: nothing follows a message that was published on some routes only.
                    self.close();
                }
                Err(error)
            }
        }
    }
}
