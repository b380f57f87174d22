//! The channels of a form check: one of each kind for a value, each reader a lane that reads from it, and mirrors that
//! agree with what they mirror.

use selvedge_core::{IdMap, IdSet};

use crate::ir::{ChannelKind, ChannelPlan, LaneProgram, LaneValue, Plan, ValueId, Writer};

/// Checks that no value has two channels of one kind, of which its writer would fill only one. Mirrors are apart: each
/// host has its own.
pub(super) fn distinct(plan: &Plan) -> Result<(), String> {
    let mut met = vec![[false; 3]; plan.ir.values.len()];
    for channel in &plan.channels {
        let of_value = met.get_mut(channel.value.index());
        let of_kind = of_value.and_then(|kinds| kinds.get_mut(channel.kind as usize));
        if of_kind.is_some_and(|met| std::mem::replace(met, true)) {
            return Err(format!(
                "channel {} is the second of its kind for `{}`",
                channel.id.0,
                plan.ir.value_name(channel.value)
            ));
        }
    }
    Ok(())
}

/// Checks that each reader of each channel is a lane that reads its value there: a writer waits for every reader. The
/// values of all lanes must fit their channels, so no two of them are one reader.
pub(super) fn readers(plan: &Plan) -> Result<(), String> {
    let mut listed = vec![0; plan.channels.len()];
    for value in plan.lanes.iter().flat_map(|lane| &lane.values) {
        if let Some(listed) = listed.get_mut(value.channel.0 as usize) {
            *listed += 1;
        }
    }
    let mut channels = plan.channels.iter().zip(listed);
    let idle = channels.find(|(channel, listed)| channel.readers.len() != *listed);
    match idle {
        Some((channel, _)) => Err(format!(
            "channel {} of `{}` has a reader that does not read from it",
            channel.id.0,
            plan.ir.value_name(channel.value)
        )),
        None => Ok(()),
    }
}

/// Checks that every mirror has one host, which is not the writer's and has no other mirror of the value, and that the
/// shared channel of the value has a reader for it.
pub(super) fn mirrors(plan: &Plan) -> Result<(), String> {
    let mut missing: IdMap<ValueId, i64> = IdMap::new();
    let mut hosts: IdSet<(ValueId, u32)> = IdSet::new();
    for channel in &plan.channels {
        if channel.kind != ChannelKind::Mirror {
            if channel.mirrors > 0 && channel.kind != ChannelKind::Shared {
                return Err(format!("channel {} has mirrors, and is not shared", channel.id.0));
            }
            *missing.or_default(channel.value) += i64::from(channel.mirrors);
            continue;
        }
        *missing.or_default(channel.value) -= 1;
        let host = channel.host();
        let is_there = channel.readers.iter().all(|reader| reader.host == host);
        let is_far = host != channel.writer.address().host;
        if !is_there || !is_far || !hosts.insert((channel.value, host.0)) {
            return Err(format!("channel {} is no mirror of one other host", channel.id.0));
        }
    }
    match missing.iter().find(|(_, missing)| **missing != 0) {
        Some((value, _)) => Err(format!(
            "not every mirror of `{}` has a channel to read from",
            plan.ir.value_name(*value)
        )),
        None => Ok(()),
    }
}

/// Whether a channel carries the value to the lane, and is of the kind that the distance requires (COMP-06).
pub(super) fn fits(lane: &LaneProgram, value: &LaneValue, channel: &ChannelPlan, plan: &Plan) -> bool {
    let slots = plan.ir.slots_of(value.value, plan.settings.slots);
    let writer = channel.writer.address();
    let (near, one_host) = (writer.is_near(lane.address), writer.host == lane.address.host);
    let kind = match channel.kind {
        ChannelKind::Local => {
            near && channel.writer == Writer::Lane(lane.address) && channel.readers.len() == 1
        }
        ChannelKind::Ring => near && channel.slots == slots,
        ChannelKind::Shared => !near && one_host && channel.slots == slots,
        ChannelKind::Mirror => !one_host && channel.slots == slots,
    };
    kind && channel.value == value.value
        && channel.readers.get(usize::from(value.reader)) == Some(&lane.address)
}
