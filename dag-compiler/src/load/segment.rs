//! The segment of a graph: its size, and the shared objects in it.

use selvedge_channels::{Doorbell, Provider, Segment, format};
use selvedge_collectives::Group;
use selvedge_core::ProcessId;

use super::LoadError;
use crate::ir::Plan;
use crate::run::control::{Control, region};
use crate::run::layout::{Layout, shared_spec};

/// Creates the segment of a plan, laid out and formatted.
pub(crate) fn create_segment(plan: &Plan, layout: &Layout) -> Result<Segment, LoadError> {
    let across = plan
        .lanes
        .iter()
        .any(|lane| lane.address.process != ProcessId::DRIVER);
    let provider = if across { Provider::Memfd } else { Provider::Heap };
    let segment = Segment::create(provider, layout.len_bytes)?;
    for channel in &plan.channels {
        if let Some(span) = layout.channels.get(&channel.id) {
            format(&region(&segment, *span)?, &shared_spec(channel))?;
        }
    }
    Control::new(&segment, layout)?.set_key();
    for (communicator, span) in plan.communicators.iter().zip(&layout.communicators) {
        let region = region(&segment, *span)?;
        let bells = communicator.ranks.iter().map(|_| Doorbell::heap()).collect();
        Group::at(region, bells, Provider::Heap, true)?;
    }
    Ok(segment)
}
