//! The ends of channels: inlets for the values that a lane reads, outlets for the values that it writes.

use std::any::Any;

use selvedge_channels::{
    AnyOutlet, Doorbell, Inlet, Local, PayloadType, Region, Route, Routes, SharedReader, SharedWriter,
};
use selvedge_core::{Address, EdgeReferences, LaneId, ProcessId, ValueIx};

use super::{LoadError, LoadSite};
use crate::ir::{ChannelId, ChannelKind, ChannelPlan, LaneProgram, Plan, ValueId, Writer};
use crate::run::control::region;
use crate::run::layout::{Span, shared_spec};

/// The minimum number of slots of a ring from the driver to lanes.
const SLOTS_IN: usize = 8;

/// The minimum number of slots of a ring from a lane to the driver.
const SLOTS_OUT: usize = 16;

/// The size in bytes above which a value is not worth more slots than the plan asks for.
const SMALL_BYTES: usize = 1024;

/// The number of slots of a ring. If the planned slots suffice for all executions in flight, a ring of small values
/// between the driver and the lanes gets more of them. Its writer then checks the readers' cursors only once in many
/// executions; each check fetches a cache line that the readers have just written. The number of results in flight
/// stays within `max_inflight` all the same. The number of inputs may exceed it: an execution may end before all lanes
/// have read its input, because a task of another lane has failed.
fn ring_slots(plan: &Plan, channel: &ChannelPlan, payload: &PayloadType) -> usize {
    let enough = channel.slots >= plan.settings.max_inflight && payload.len_bytes() <= SMALL_BYTES;
    let least = match channel.writer {
        Writer::Submit if enough => SLOTS_IN,
        _ if enough && channel.readers == [Address::DRIVER] => SLOTS_OUT,
        _ => 1,
    };
    (channel.slots as usize).max(least)
}

/// The ends of an in-process ring that have not been taken yet.
#[derive(Default)]
pub(super) struct RingEnds {
    writer: Option<Box<dyn Any + Send>>,
    readers: Vec<Option<Box<dyn Any + Send>>>,
}

/// The ring ends of each channel, by channel number.
pub(super) type Rings = Vec<RingEnds>;

impl LoadSite<'_> {
    pub(super) fn channels(&self, value: ValueId) -> impl Iterator<Item = &ChannelPlan> {
        let kinds = self.index.channels.get(value.index()).into_iter().flatten();
        kinds
            .flatten()
            .filter_map(|id| self.plan.channels.get(id.0 as usize))
    }

    pub(super) fn bell(&self, lane: LaneId) -> Result<Doorbell, LoadError> {
        self.control
            .bell(lane)
            .cloned()
            .ok_or(LoadError::Inconsistent("a lane without a doorbell"))
    }

    /// The doorbell of a process's joint with other hosts.
    pub(super) fn joint_bell(&self, process: Option<ProcessId>) -> Result<Doorbell, LoadError> {
        let bell = process.and_then(|process| self.control.joint_bell(process));
        bell.cloned()
            .ok_or(LoadError::Inconsistent("a process without a joint"))
    }

    /// The doorbell of the end that writes a channel: the lane's, or that of the shuttle.
    pub(super) fn writer_bell(&self, channel: &ChannelPlan) -> Result<Doorbell, LoadError> {
        match channel.kind {
            ChannelKind::Mirror => self.joint_bell(channel.readers.first().map(|reader| reader.process)),
            _ => self.bell(channel.writer.address().lane),
        }
    }

    /// The doorbells of the readers, of which the shuttles are the last. They are in the writer's process.
    pub(super) fn reader_bells(&self, channel: &ChannelPlan) -> Result<Vec<Doorbell>, LoadError> {
        let lanes = channel.readers.iter().map(|reader| self.bell(reader.lane));
        let writer = channel.writer.address().process;
        let shuttles = (0..channel.mirrors).map(|_| self.joint_bell(Some(writer)));
        lanes.chain(shuttles).collect()
    }

    pub(super) fn rings(&self) -> Result<Rings, LoadError> {
        let mut rings = Rings::new();
        rings.resize_with(self.plan.channels.len(), RingEnds::default);
        let here = |channel: &&ChannelPlan| {
            channel.kind == ChannelKind::Ring && channel.writer.address().process == self.process
        };
        for channel in self.plan.channels.iter().filter(here) {
            let payload = self.payload(channel.value)?;
            let bells = self.reader_bells(channel)?;
            let slots = ring_slots(self.plan, channel, &payload);
            let (writer, readers) = payload.ring(slots, self.writer_bell(channel)?, bells)?;
            if let Some(ends) = rings.get_mut(channel.id.0 as usize) {
                ends.writer = Some(writer);
                ends.readers = readers.into_iter().map(Some).collect();
            }
        }
        Ok(rings)
    }

    pub(super) fn region(&self, span: &Span) -> Result<Region, LoadError> {
        Ok(region(self.segment, *span)?)
    }

    /// The references of this process, if the values of a channel may hold some.
    fn references_of(&self, channel: &ChannelPlan) -> Option<&EdgeReferences> {
        let referring = self.referring?;
        let is_meant = referring.values.contains(&channel.value);
        is_meant.then_some(&referring.references)
    }

    pub(super) fn shared_region(&self, channel: ChannelId) -> Result<Region, LoadError> {
        let span = self
            .layout
            .channels
            .get(&channel)
            .ok_or(LoadError::Inconsistent("a channel without memory"))?;
        self.region(span)
    }

    pub(super) fn inlet(
        &self,
        program: &LaneProgram,
        index: usize,
        rings: &mut Rings,
    ) -> Result<Inlet, LoadError> {
        let missing = LoadError::Inconsistent("a reader without a channel");
        let Some(value) = program.values.get(index) else {
            return Err(missing);
        };
        let Some(channel) = self.plan.channels.get(value.channel.0 as usize) else {
            return Err(missing);
        };
        match channel.kind {
            ChannelKind::Local => Ok(Inlet::Local(Local)),
            ChannelKind::Ring => {
                let ends = rings.get_mut(channel.id.0 as usize);
                let reader = ends.and_then(|ends| ends.readers.get_mut(usize::from(value.reader))?.take());
                reader.map(Inlet::Ring).ok_or(missing)
            }
            ChannelKind::Shared | ChannelKind::Mirror => {
                let region = self.shared_region(channel.id)?;
                let bell = self.writer_bell(channel)?;
                let mut reader =
                    SharedReader::attach(region, &shared_spec(channel), u32::from(value.reader), bell)?;
                let writer = channel.writer.address().process;
                if let Some(references) = self.references_of(channel) {
                    let records = references.reader(writer);
                    reader.take_records(records.map_err(|gone| self.no_process(gone))?);
                }
                Ok(Inlet::Shared(reader))
            }
        }
    }

    /// The outlet of a value; `local` is the position of the value in the writer's own lane.
    pub(super) fn outlet(
        &self,
        value: ValueId,
        local: Option<ValueIx>,
        rings: &mut Rings,
    ) -> Result<Box<dyn AnyOutlet>, LoadError> {
        let mut routes = Routes {
            local: None,
            channels: Vec::new(),
        };
        for channel in self.channels(value) {
            match channel.kind {
                ChannelKind::Local => routes.local = local.map(|local| local.0),
                ChannelKind::Ring => {
                    let writer = rings
                        .get_mut(channel.id.0 as usize)
                        .and_then(|ends| ends.writer.take());
                    routes.channels.extend(writer.map(Route::Ring));
                }
                ChannelKind::Shared => {
                    let region = self.shared_region(channel.id)?;
                    let readers = self.reader_bells(channel)?;
                    let mut writer = SharedWriter::attach(region, &shared_spec(channel), readers)?;
                    if let Some(bypass) = self.bypasses.get(&channel.id) {
                        writer.take_bypass(bypass.clone());
                    }
                    let readers = channel.readers.iter().map(|reader| reader.process);
                    if let Some(references) = self.references_of(channel) {
                        let records = references.writer(readers);
                        writer.make_records(records.map_err(|gone| self.no_process(gone))?);
                    }
                    routes.channels.push(Route::Shared(writer));
                }
                // The shuttle writes it.
                ChannelKind::Mirror => {}
            }
        }
        let mut outlet = self.payload(value)?.outlet(routes)?;
        if let Some(terms) = self.terms(value) {
            outlet.agree(terms);
        }
        Ok(outlet)
    }
}
