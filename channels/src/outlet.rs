//! One output value of a task: a composite channel with up to three routes, written all or none.

use std::any::Any;

use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::payload::Wire;
use crate::ring::RingWriter;
use crate::shared::SharedWriter;
use crate::value::{AnyValue, Readiness, Value};

/// Where an output goes, its type erased.
pub struct Routes {
    /// Index of a local [`Value`] of the writer's lane.
    pub local: Option<usize>,
    /// The readers of this process: a [`RingWriter`] of the value's type.
    pub ring: Option<Box<dyn Any + Send>>,
    /// The readers of other processes.
    pub shared: Option<SharedWriter>,
}

/// A composite channel's writing end: a message is staged, then published on every route.
pub struct Outlet<T> {
    staged: Option<Message<T>>,
    local: Option<usize>,
    ring: Option<RingWriter<T>>,
    shared: Option<SharedWriter>,
}

/// An [`Outlet`] with its type erased.
pub trait AnyOutlet: Send {
    /// Stages a fault in place of whatever is staged.
    fn stage_fault(&mut self, fault: Fault);
    /// Whether something is staged.
    fn is_staged(&self) -> bool;
    /// Whether every route has a free slot.
    ///
    /// # Errors
    /// What a route says.
    fn has_space(&mut self) -> Result<bool, ChannelError>;
    /// Publishes the staged message on all routes, or on none: `Blocked` keeps it staged.
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] when nothing is staged; [`ChannelError::TooLarge`] and [`ChannelError::Encode`]
    /// before anything was written; whatever else a route says closes all of them.
    fn publish(
        &mut self,
        execution: u64,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Readiness, ChannelError>;
    /// Closes every route.
    fn close(&mut self);
    /// The typed outlet.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Wire> Outlet<T> {
    pub(crate) fn new(
        local: Option<usize>,
        ring: Option<RingWriter<T>>,
        shared: Option<SharedWriter>,
    ) -> Self {
        Outlet {
            staged: None,
            local,
            ring,
            shared,
        }
    }

    /// Stages a value.
    #[inline]
    pub fn stage(&mut self, value: T) {
        self.staged = Some(Ok(value));
    }

    /// Writes the routes in an order in which only the first can refuse: bytes by reference, then the value itself.
    fn write(
        &mut self,
        execution: u64,
        message: Message<T>,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<(), (ChannelError, Option<Message<T>>)> {
        if let Some(shared) = &mut self.shared {
            let written = match &message {
                Ok(value) => shared.try_write(value),
                Err(fault) => shared.try_write_fault(fault),
            };
            match written {
                Ok(true) => {}
                Ok(false) => return Err((ChannelError::Full, Some(message))),
                Err(error) => return Err((error, Some(message))),
            }
        }
        let Some(local) = self.local else {
            let Some(ring) = &mut self.ring else { return Ok(()) };
            return ring
                .try_write(message)
                .map_err(|message| (ChannelError::Full, Some(message)));
        };
        let place = values
            .get_mut(local)
            .and_then(|value| value.as_any_mut().downcast_mut::<Value<T>>());
        let Some(place) = place else {
            return Err((ChannelError::NoValue, Some(message)));
        };
        if let Some(ring) = &mut self.ring {
            ring.try_write(message.clone())
                .map_err(|message| (ChannelError::Full, Some(message)))?;
        }
        place.put(execution, message).map_err(|error| (error, None))
    }
}

impl<T: Wire> AnyOutlet for Outlet<T> {
    fn stage_fault(&mut self, fault: Fault) {
        self.staged = Some(Err(fault));
    }

    #[inline]
    fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    #[inline]
    fn has_space(&mut self) -> Result<bool, ChannelError> {
        if let Some(ring) = &mut self.ring
            && !ring.has_space()
        {
            return Ok(false);
        }
        self.shared.as_mut().map_or(Ok(true), SharedWriter::has_space)
    }

    #[inline]
    fn publish(
        &mut self,
        execution: u64,
        values: &mut [Box<dyn AnyValue>],
    ) -> Result<Readiness, ChannelError> {
        if self.staged.is_none() {
            return Err(ChannelError::NoValue);
        }
        if !self.has_space()? {
            return Ok(Readiness::Blocked);
        }
        let Some(message) = self.staged.take() else {
            return Err(ChannelError::NoValue);
        };
        match self.write(execution, message, values) {
            Ok(()) => Ok(Readiness::Ready),
            Err((error @ (ChannelError::TooLarge { .. } | ChannelError::Encode(_)), message)) => {
                self.staged = message;
                Err(error)
            }
            Err((error, _)) => {
                self.close();
                Err(error)
            }
        }
    }

    fn close(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.close();
        }
        if let Some(shared) = &mut self.shared {
            shared.close();
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
