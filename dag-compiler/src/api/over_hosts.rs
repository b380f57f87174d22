//! The start of a graph over several hosts: what is refused, and the driver's joint.

use std::sync::Arc;

use selvedge_core::{Lease, ProcessId};

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ChannelPlan, Plan};
use crate::load::{LoadError, Referring, ShuttleEnds, joint};
use crate::run::control::Control;
use crate::run::hosts::Joint;

/// Reports a value that may hold references and is read on another host, at the line of its maker.
pub(super) fn references_over_hosts(plan: &Plan, referring: &Referring) -> Option<Diagnostic> {
    let is_far = |channel: &&ChannelPlan| channel.mirrors > 0 && referring.values.contains(&channel.value);
    let channel = plan.channels.iter().find(is_far)?;
    let task = plan.ir.maker(channel.value).and_then(|task| plan.ir.task(task));
    let location = task.map_or(&plan.ir.compiled_at, |task| &task.bound_at);
    let message = format!(
        "`{}` may hold references, and is read on another host",
        plan.ir.value_name(channel.value)
    );
    Some(Diagnostic::new(Code::OtherHost, message, location.clone()))
}

/// Makes the driver's joint with the graph's other hosts and starts its thread; `None` if there are no other hosts.
pub(super) fn join_hosts(
    plan: &Plan,
    lease: &Lease,
    referring: &Referring,
    control: &Control,
    ends: ShuttleEnds,
) -> Result<Option<Arc<Joint>>, LoadError> {
    if plan.joints().is_empty() {
        return Ok(None);
    }
    let correspondence = lease.correspondence(referring.references.peers().clone());
    joint(plan, ProcessId::DRIVER, control, correspondence, ends, None).map(Some)
}
