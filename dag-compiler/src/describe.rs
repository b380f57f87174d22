//! A plan in words and as DOT.

use std::fmt::Write;

use crate::ir::{ArgIr, ChannelKind, ChannelPlan, GraphIr, Operation, Plan, Writer};

impl Plan {
    /// Tasks, channels and the schedule of every lane, as text.
    pub fn describe(&self) -> String {
        let mut text = format!("graph {}\n\ntasks\n", self.graph);
        for (index, task) in self.ir.tasks.iter().enumerate() {
            let args: Vec<String> = task
                .args
                .iter()
                .map(|arg| match arg {
                    ArgIr::Value(value) => self.ir.value_name(*value),
                    ArgIr::Constant(_) => "constant".to_owned(),
                })
                .collect();
            let (args, bound_at) = (args.join(", "), &task.bound_at);
            let _ = writeln!(text, "  {index:>3} {}({args})    bound at {bound_at}", task.label);
        }
        text.push_str("\nchannels\n");
        for channel in &self.channels {
            let _ = writeln!(text, "  {}", self.channel(channel));
        }
        text.push_str("\nschedules\n");
        for lane in &self.lanes {
            let place = self.ir.actors.iter().find(|actor| actor.lane == lane.lane);
            let place = place.map_or("driver", |actor| actor.placement.as_str());
            let steps: Vec<String> = lane.steps.iter().map(|step| self.step(*step)).collect();
            let steps = if steps.is_empty() {
                "collects outputs".to_owned()
            } else {
                steps.join(" · ")
            };
            let _ = writeln!(text, "  lane {} ({place}): {steps}", lane.lane.0);
        }
        text
    }

    fn channel(&self, channel: &ChannelPlan) -> String {
        let kind = match channel.kind {
            ChannelKind::Local => "local ",
            ChannelKind::Ring => "ring  ",
            ChannelKind::Shared => "shared",
        };
        let writer = match channel.writer {
            Writer::Submit => "submit".to_owned(),
            Writer::Lane(lane) => format!("lane {}", lane.0),
        };
        let readers: Vec<String> = channel.readers.iter().map(|lane| lane.0.to_string()).collect();
        let (id, value, readers) = (
            channel.id.0,
            self.ir.value_name(channel.value),
            readers.join(", "),
        );
        let slots = channel.slots;
        let bytes = if channel.slot_bytes > 0 {
            format!(" of {} B", channel.slot_bytes)
        } else {
            String::new()
        };
        format!("{id:>3} {kind} {value}: {writer} -> lane {readers}    {slots} slots{bytes}")
    }

    fn step(&self, step: Operation) -> String {
        let label = self.ir.task(step.task).map_or("?", |task| task.label.as_str());
        format!("{} {label}", step.kind)
    }

    /// The graph in DOT: a cluster per lane, a node per task, an edge per read, dashed between processes.
    pub fn to_dot(&self) -> String {
        let mut dot = format!("digraph {:?} {{\n  rankdir=LR;\n", self.graph);
        for lane in &self.lanes {
            let _ = writeln!(dot, "  subgraph cluster_{0} {{ label=\"lane {0}\";", lane.lane.0);
            for (index, task) in self.ir.tasks.iter().enumerate() {
                if self
                    .ir
                    .actor(task.actor)
                    .is_some_and(|actor| actor.lane == lane.lane)
                {
                    let _ = writeln!(dot, "    t{index} [label={:?}];", task.label);
                }
            }
            dot.push_str("  }\n");
        }
        dot.push_str("  input [shape=box]; output [shape=box];\n");
        for (index, task) in self.ir.tasks.iter().enumerate() {
            for (_, value) in GraphIr::reads(task) {
                let _ = writeln!(dot, "  {} -> t{index};", self.origin(value));
            }
        }
        for output in &self.ir.outputs {
            let _ = writeln!(dot, "  {} -> output;", self.origin(*output));
        }
        dot.push_str("}\n");
        dot
    }

    fn origin(&self, value: crate::ir::ValueId) -> String {
        match self.ir.value(value).map(|value| value.origin) {
            Some(crate::ir::Origin::Task(task)) => format!("t{}", task.0),
            _ => "input".to_owned(),
        }
    }
}
