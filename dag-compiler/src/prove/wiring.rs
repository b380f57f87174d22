//! From a plan to a machine: channels and their ends by index, and what every party does in turn.

use std::collections::BTreeMap;

use selvedge_core::LaneId;

use super::machine::{Act, Channel, End, Machine, Party, Step};
use crate::ir::{ArgIr, ChannelKind, LaneProgram, OpKind, Operation, Origin, Plan, ValueId, Writer};

/// Each lane's ends, by value.
type Known = BTreeMap<ValueId, usize>;

/// A machine that will run `slots + 1` executions with so many slots.
pub(super) fn machine(plan: &Plan, slots: u32) -> Machine {
    let mut channels = channels(plan, slots);
    let (ends, known) = ends(plan, &mut channels);
    let write = |list: &[usize]| {
        let mine = list.iter().filter_map(|channel| channels.get(*channel));
        let ends = mine.flat_map(|channel| &channel.ends).copied().collect();
        Act::Write {
            channels: list.to_vec(),
            ends,
        }
    };
    let made = made(plan);
    let write_task = |task: usize| write(made.get(task).map_or(&[], Vec::as_slice));
    let lanes = plan.lanes.iter().zip(&known);
    let mut parties: Vec<Party> = lanes
        .map(|(lane, known)| Party::new(Writer::Lane(lane.lane), steps(plan, lane, known, write_task)))
        .collect();
    let submitted = plan
        .channels
        .iter()
        .enumerate()
        .filter(|(_, channel)| channel.writer == Writer::Submit);
    let inputs: Vec<usize> = submitted.map(|(index, _)| index).collect();
    parties.push(Party::new(
        Writer::Submit,
        vec![Step {
            act: write(&inputs),
            operation: None,
        }],
    ));
    Machine {
        parties,
        channels,
        ends,
        executions: u64::from(slots) + 1,
        taken: 0,
    }
}

/// The parties are the lanes in order, then the submission.
fn channels(plan: &Plan, slots: u32) -> Vec<Channel> {
    let submission = plan.lanes.len();
    let places: BTreeMap<LaneId, usize> = plan
        .lanes
        .iter()
        .enumerate()
        .map(|(index, lane)| (lane.lane, index))
        .collect();
    let channel = |channel: &crate::ir::ChannelPlan| Channel {
        value: channel.value,
        writer: match channel.writer {
            Writer::Submit => submission,
            Writer::Lane(lane) => places.get(&lane).copied().unwrap_or(submission),
        },
        slots: if channel.kind == ChannelKind::Local {
            1
        } else {
            u64::from(slots)
        },
        written: 0,
        ends: Vec::new(),
    };
    plan.channels.iter().map(channel).collect()
}

fn ends(plan: &Plan, channels: &mut [Channel]) -> (Vec<End>, Vec<Known>) {
    let mut ends: Vec<End> = Vec::new();
    let mut known: Vec<Known> = Vec::with_capacity(plan.lanes.len());
    for (reader, lane) in plan.lanes.iter().enumerate() {
        let mut mine = Known::new();
        for value in &lane.values {
            let channel = value.channel.0 as usize;
            let Some(list) = channels.get_mut(channel) else {
                continue;
            };
            list.ends.push(ends.len());
            mine.insert(value.value, ends.len());
            ends.push(End {
                channel,
                reader,
                reads: value.reads,
                done: 0,
                consumed: 0,
            });
        }
        known.push(mine);
    }
    (ends, known)
}

/// For each task, the channels of the values it makes.
fn made(plan: &Plan) -> Vec<Vec<usize>> {
    let mut made = vec![Vec::new(); plan.ir.tasks.len()];
    for (index, channel) in plan.channels.iter().enumerate() {
        let value = plan.ir.value(channel.value);
        if let Some(Origin::Task(task)) = value.map(|value| value.origin)
            && let Some(made) = made.get_mut(task.0 as usize)
        {
            made.push(index);
        }
    }
    made
}

/// A lane's operations as acts; the driver's lane then collects the outputs. An output that no inline task reads may
/// be collected sooner than here, which only gives slots back earlier.
fn steps(plan: &Plan, lane: &LaneProgram, known: &Known, write: impl Fn(usize) -> Act) -> Vec<Step> {
    let end = |arg: &ArgIr| match arg {
        ArgIr::Value(value) => known.get(value).copied(),
        ArgIr::Constant(_) => None,
    };
    let act = |operation: &Operation| {
        let task = plan.ir.task(operation.task)?;
        Some(match operation.kind {
            OpKind::Read { arg } => Act::Read(end(task.args.get(usize::from(arg))?)?),
            OpKind::Compute => Act::Done(task.args.iter().filter_map(end).collect()),
            OpKind::Write => write(operation.task.0 as usize),
        })
    };
    let step = |operation: &Operation| {
        Some(Step {
            act: act(operation)?,
            operation: Some(*operation),
        })
    };
    let mut steps: Vec<Step> = lane.steps.iter().filter_map(step).collect();
    if lane.lane == LaneId(0) {
        let outputs: Vec<usize> = plan
            .ir
            .outputs
            .iter()
            .filter_map(|value| known.get(value).copied())
            .collect();
        let mut awaited = outputs.clone();
        awaited.sort_unstable();
        awaited.dedup();
        steps.extend(awaited.into_iter().map(|end| Step {
            act: Act::Read(end),
            operation: None,
        }));
        steps.push(Step {
            act: Act::Done(outputs),
            operation: None,
        });
    }
    steps
}
