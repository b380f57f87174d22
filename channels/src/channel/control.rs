//! A channel as the control path of another one. Its messages describe data in memory that is not its own, and its
//! slots are the credits of that memory. So a peer's death ends the wait of an endpoint even for a message that has
//! arrived: the data that the message describes may never arrive.

use std::time::Duration;

use super::peers::OnDeath;
use super::reader::Reader;
use super::writer::Writer;
use crate::error::ChannelError;
use crate::fault::Fault;
use crate::kind::{Arrival, Sink, Source};
use crate::payload::Wire;
use crate::wait::doorbell::Doorbell;

impl<T: Wire> Writer<T> {
    /// The default time limit of this endpoint's waits; `None` for no limit.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.line.timeout
    }

    /// Checks that no peer is known to have died.
    pub(crate) fn check_live(&mut self) -> Result<(), ChannelError> {
        self.line.look();
        self.sink.check_live()
    }

    /// Registers a callback for the death of a reader. It is called as soon as the death is noticed, on any thread.
    pub(crate) fn on_death(&mut self, told: OnDeath) {
        self.line.on_death(told);
        self.line.look();
    }

    /// Whether a slot is free.
    pub(crate) fn has_credit(&mut self) -> Result<bool, ChannelError> {
        self.check_live()?;
        self.sink.has_space()
    }

    /// Waits for a free slot.
    pub(crate) fn credit(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.wait_until(timeout, Sink::has_space)
    }

    /// Waits until every reader is done with every message.
    pub(crate) fn drain(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.wait_until(timeout, Sink::is_drained)
    }

    /// Sends a fault into a free slot.
    pub(crate) fn put_fault(&mut self, fault: &Fault) -> Result<(), ChannelError> {
        if self.sink.put_ref(Err(fault))? {
            Ok(())
        } else {
            Err(ChannelError::Full)
        }
    }
}

impl<T: Wire> Reader<T> {
    /// The default time limit of this endpoint's waits; `None` for no limit.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.line.timeout
    }

    /// The endpoint's own doorbell, for other threads to ring.
    pub(crate) fn bell(&self) -> &Doorbell {
        self.line.bell()
    }

    /// Checks that no peer is known to have died.
    pub(crate) fn check_live(&mut self) -> Result<(), ChannelError> {
        self.line.look();
        self.source.check_live()
    }

    /// Registers a callback for the death of the writer. It is called as soon as the death is noticed, on any thread.
    pub(crate) fn on_death(&mut self, told: OnDeath) {
        self.line.on_death(told);
        self.line.look();
    }

    /// Whether the next message has arrived.
    pub(crate) fn has_message(&mut self) -> Result<bool, ChannelError> {
        self.check_live()?;
        Ok(self.source.receive()? != Arrival::Nothing)
    }

    /// Waits for the next message.
    pub(crate) fn message(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.arrive(timeout)?;
        // The writer may have died during the wait, with or without having sent this message.
        self.check_live()
    }

    /// The message that has arrived, or the fault that has arrived in its place.
    pub(crate) fn content(&self) -> Result<Result<&T, Fault>, ChannelError> {
        match self.source.fault() {
            Some(fault) => Ok(Err(fault)),
            None => self.source.get().map(Ok),
        }
    }

    /// Passes the message that has arrived.
    pub(crate) fn next(&mut self) {
        self.pass();
    }

    /// Waits until `done` returns `true` or a peer has died. A change of the result of `done` must ring this endpoint's
    /// bell.
    pub(crate) fn wait_for(
        &mut self,
        timeout: Option<Duration>,
        done: impl Fn() -> bool,
    ) -> Result<(), ChannelError> {
        self.line.look();
        let source = &self.source;
        self.line.wait(timeout, 0, || {
            if done() {
                return Ok(Some(()));
            }
            source.check_live().map(|()| None)
        })
    }
}
