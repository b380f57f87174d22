//! A channel as the control path of another one: its messages say what lies in memory that is not its own, its slots are that
//! memory's credits. So its ends let a peer's death end the wait for a message that is there: what the message speaks of may
//! never be.

use std::time::Duration;

use super::peers::OnDeath;
use super::reader::Reader;
use super::writer::{WriteEnd, Writer};
use crate::doorbell::Doorbell;
use crate::error::ChannelError;
use crate::fault::Fault;
use crate::payload::Wire;
use crate::value::{AnyValue, Arrival};

impl<T: Wire> Writer<T> {
    /// How long an end waits where nobody says otherwise.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.line.timeout
    }

    /// Whether no peer is known to have died.
    pub(crate) fn check_live(&mut self) -> Result<(), ChannelError> {
        self.line.look();
        match &self.end {
            WriteEnd::Ring(_) => Ok(()),
            WriteEnd::Shared(shared) => shared.check_live(),
        }
    }

    /// Has somebody else told of a reader's death, at once and on any thread.
    pub(crate) fn on_death(&mut self, told: OnDeath) {
        self.line.on_death(told);
        self.line.look();
    }

    /// Whether a slot is free.
    pub(crate) fn has_credit(&mut self) -> Result<bool, ChannelError> {
        self.check_live()?;
        Ok(self.end.has_space()?.is_some())
    }

    /// Waits for a free slot.
    pub(crate) fn credit(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.wait_until(timeout, WriteEnd::has_space)
    }

    /// Waits until every reader is done with every message.
    pub(crate) fn drain(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.wait_until(timeout, WriteEnd::is_drained)
    }

    /// Sends a fault into a slot that is free.
    pub(crate) fn put_fault(&mut self, fault: &Fault) -> Result<(), ChannelError> {
        let sent = match &mut self.end {
            WriteEnd::Ring(ring) => ring.try_write(Err(fault.clone())).is_ok(),
            WriteEnd::Shared(shared) => shared.try_write_fault(fault)?,
        };
        if sent { Ok(()) } else { Err(ChannelError::Full) }
    }
}

impl<T: Wire> Reader<T> {
    /// How long an end waits where nobody says otherwise.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.line.timeout
    }

    /// Its own bell, for others to ring.
    pub(crate) fn bell(&self) -> &Doorbell {
        self.line.bell()
    }

    /// Whether no peer is known to have died.
    pub(crate) fn check_live(&mut self) -> Result<(), ChannelError> {
        self.line.look();
        self.value.check_live()
    }

    /// Has somebody else told of the writer's death, at once and on any thread.
    pub(crate) fn on_death(&mut self, told: OnDeath) {
        self.line.on_death(told);
        self.line.look();
    }

    /// Whether the next message is there.
    pub(crate) fn has_message(&mut self) -> Result<bool, ChannelError> {
        self.check_live()?;
        Ok(self.value.attempt(self.next)? != Arrival::Nothing)
    }

    /// Waits for the next message.
    pub(crate) fn message(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        self.check_live()?;
        self.arrive(timeout)?;
        // It may have died while we waited, or have left a message before it did.
        self.check_live()
    }

    /// The message that has come, or the fault that has come instead.
    pub(crate) fn content(&self) -> Result<Result<&T, Fault>, ChannelError> {
        match self.value.fault() {
            Some(fault) => Ok(Err(fault)),
            None => self.value.get().map(Ok),
        }
    }

    /// Is done with the message that has come.
    pub(crate) fn next(&mut self) {
        self.pass();
    }

    /// Waits until `done` says so, which this end's bell tells of, or a peer has died.
    pub(crate) fn wait_for(
        &mut self,
        timeout: Option<Duration>,
        done: impl Fn() -> bool,
    ) -> Result<(), ChannelError> {
        self.line.look();
        let value = &self.value;
        self.line.wait(timeout, 0, || {
            if done() {
                return Ok(Some(()));
            }
            value.check_live().map(|()| None)
        })
    }
}
