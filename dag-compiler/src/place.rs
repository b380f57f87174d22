//! Channels, from who writes and who reads a value (COMP-01, COMP-06).
//!
//! Readers of one lane share one end (the cached channel, CACHE-01). A value read only on its writer's lane stays a
//! local slot; readers in the writer's process share a ring, the writer's own lane among them if it reads too;
//! readers in other processes share a ring in shared memory. O(tasks + edges).

use std::collections::BTreeMap;

use selvedge_core::{LaneId, ProcessId};

use crate::ir::{ChannelId, ChannelKind, ChannelPlan, GraphIr, LaneValue, Origin, Settings, ValueId, Writer};

/// Channels, and what each lane reads by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The channels, by id.
    pub channels: Vec<ChannelPlan>,
    /// What each lane reads, by value.
    pub values: BTreeMap<LaneId, Vec<LaneValue>>,
}

/// How a lane reads a value.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// How often.
    reads: u32,
    /// By a rendezvous.
    meets: bool,
}

/// How each lane reads a value.
type Reads = BTreeMap<(ProcessId, LaneId), Reading>;

/// Decides the channels of every value.
pub fn place(graph: &GraphIr, settings: &Settings) -> Placement {
    let lanes = graph.places();
    let mut reads: Vec<Reads> = vec![Reads::new(); graph.values.len()];
    let driver = (ProcessId(0), LaneId(0));
    for task in &graph.tasks {
        let Some(place) = lanes.get(&task.actor) else {
            continue;
        };
        for (position, value) in GraphIr::reads(task) {
            if let Some(reads) = reads.get_mut(value.index()) {
                let reading = reads.entry(*place).or_default();
                reading.reads += 1;
                reading.meets |= task.meets.contains(&position);
            }
        }
    }
    for output in &graph.outputs {
        if let Some(reads) = reads.get_mut(output.index()) {
            reads.entry(driver).or_default().reads += 1;
        }
    }
    let mut placement = Placement::default();
    for (index, (value, reads)) in graph.values.iter().zip(&reads).enumerate() {
        let writer = match value.origin {
            Origin::Input(_) => (ProcessId(0), Writer::Submit),
            Origin::Task(task) => {
                let place = graph
                    .task(task)
                    .and_then(|task| lanes.get(&task.actor))
                    .copied()
                    .unwrap_or(driver);
                (place.0, Writer::Lane(place.1))
            }
        };
        placement.add(ValueId(index as u32), writer, reads, settings);
    }
    placement
}

impl Placement {
    /// Adds the channels of one value.
    fn add(
        &mut self,
        value: ValueId,
        (process, writer): (ProcessId, Writer),
        reads: &Reads,
        settings: &Settings,
    ) {
        let near = select(reads, |reader| reader == process);
        let far = select(reads, |reader| reader != process);
        let local = matches!(near.as_slice(), [(lane, _)] if writer == Writer::Lane(*lane));
        let near_kind = if local {
            ChannelKind::Local
        } else {
            ChannelKind::Ring
        };
        for (kind, readers) in [(near_kind, near), (ChannelKind::Shared, far)] {
            if readers.is_empty() {
                continue;
            }
            let id = ChannelId(self.channels.len() as u32);
            for (position, (lane, reading)) in readers.iter().enumerate() {
                let across = matches!(writer, Writer::Lane(writer) if writer != *lane);
                let read = LaneValue {
                    value,
                    channel: id,
                    reader: position as u16,
                    reads: reading.reads,
                    meets: reading.meets && across,
                };
                self.values.entry(*lane).or_default().push(read);
            }
            let shared = kind == ChannelKind::Shared;
            self.channels.push(ChannelPlan {
                id,
                value,
                kind,
                writer,
                writer_process: process,
                readers: readers.into_iter().map(|(lane, _)| lane).collect(),
                slots: if kind == ChannelKind::Local {
                    1
                } else {
                    settings.slots
                },
                slot_bytes: if shared { settings.slot_bytes } else { 0 },
                max_bytes: if shared { settings.max_bytes } else { 0 },
            });
        }
    }
}

fn select(reads: &Reads, keep: impl Fn(ProcessId) -> bool) -> Vec<(LaneId, Reading)> {
    reads
        .iter()
        .filter(|((process, _), _)| keep(*process))
        .map(|((_, lane), reading)| (*lane, *reading))
        .collect()
}
