//! Plans as text.

use std::fmt::Write;

use crate::ir::{
    ArgIr, ChannelId, ChannelKind, ChannelPlan, CommunicatorPlan, LaneProgram, Operation, Plan, RankPlan,
    TaskIr, TensorPathPlan, ValueId, Writer,
};
use crate::prove::forecast::forecast;
use selvedge_core::IdSet;

/// The number of characters of a drawn time line.
const COLUMNS: usize = 72;

/// Adds a section with one line for each item, unless it is empty.
fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    for (number, line) in lines.enumerate() {
        if number == 0 {
            let _ = writeln!(text, "\n{title}");
        }
        let _ = writeln!(text, "  {line}");
    }
}

impl Plan {
    /// Returns the plan as text: tasks, channels, the schedule of every lane, the planned time line, and shared memory.
    pub fn describe(&self) -> String {
        let mut text = format!("graph {}\n", self.graph);
        section(
            &mut text,
            "tasks",
            self.ir.tasks.iter().enumerate().map(|it| self.task(it)),
        );
        text.push_str("\nchannels\n");
        let values = self.lanes.iter().flat_map(|lane| &lane.values);
        let met: IdSet<ChannelId> = values.filter(|it| it.meets).map(|it| it.channel).collect();
        for channel in &self.channels {
            let meets = if met.contains(&channel.id) {
                "    rendezvous"
            } else {
                ""
            };
            let _ = writeln!(text, "  {}{meets}", self.channel(channel));
        }
        let paths = self.tensor_paths.iter().map(|path| self.tensor_path(path));
        section(&mut text, "tensors on devices", paths);
        let backend = self.settings.communicator.as_deref().unwrap_or("shm");
        let groups = self.communicators.iter().enumerate().map(|it| self.ranks(it));
        section(&mut text, &format!("groups of ranks ({backend})"), groups);
        section(
            &mut text,
            "schedules",
            self.lanes.iter().map(|lane| self.schedule(lane)),
        );
        text.push_str(&self.drawn());
        section(&mut text, "decisions", self.notes.iter().cloned());
        let memory = self.memory();
        let (channels, now, most) = (
            memory.shared_channels,
            memory.shared_bytes,
            memory.shared_bytes_max,
        );
        let shared = format!("{channels} channels: {now} B, at most {most} B when all have grown");
        section(&mut text, "shared memory", [shared].into_iter());
        text
    }

    fn task(&self, (index, task): (usize, &TaskIr)) -> String {
        let arg = |arg: &ArgIr| match arg {
            ArgIr::Value(value) => self.argument(*value),
            ArgIr::Constant(_) => "constant".to_owned(),
        };
        let args: Vec<String> = task.args.iter().map(arg).collect();
        let (args, bound_at) = (args.join(", "), &task.bound_at);
        format!("{index:>3} {}({args})    bound at {bound_at}", task.label)
    }

    fn ranks(&self, (number, group): (usize, &CommunicatorPlan)) -> String {
        let name = |rank: &RankPlan| self.ir.actor(rank.actor).map_or("?", |actor| actor.name.as_str());
        let names: Vec<&str> = group.ranks.iter().map(name).collect();
        format!("{number:>3} {}", names.join(", "))
    }

    fn schedule(&self, lane: &LaneProgram) -> String {
        let step = |(at, step): (usize, &Operation)| match lane.original.get(at) {
            Some(original) if *original as usize > at => {
                format!("{} (from {original} to {at})", self.step(*step))
            }
            _ => self.step(*step),
        };
        let mut steps: Vec<String> = lane.steps.iter().enumerate().map(step).collect();
        if steps.is_empty() {
            steps.push("collects outputs".to_owned());
        }
        let (number, place) = (lane.address.lane.0, self.ir.place_of(lane.address.lane));
        format!("lane {number} ({place}): {}", steps.join(" · "))
    }

    /// Draws the planned time line of one execution: a row per lane, time from left to right, `[` at the begin of a
    /// task.
    fn drawn(&self) -> String {
        let Some(forecast) = forecast(self) else {
            return String::new();
        };
        let column = |ns: u64| (ns as f64 / forecast.makespan_ns.max(1) as f64 * COLUMNS as f64) as usize;
        let mut rows: Vec<Vec<char>> = self.lanes.iter().map(|_| vec!['.'; COLUMNS]).collect();
        for step in forecast.steps.iter().filter(|step| step.operation.kind.is_work()) {
            let label = self.ir.label(step.operation.task);
            let (begin, end) = (
                column(step.start_ns).min(COLUMNS - 1),
                column(step.end_ns).min(COLUMNS),
            );
            let width = end.saturating_sub(begin).max(1);
            let name = label.chars().chain(std::iter::repeat(' '));
            let inner = std::iter::once('[')
                .chain(name.take(width.saturating_sub(2)))
                .chain(std::iter::once(']'));
            let places = rows
                .get_mut(step.lane)
                .into_iter()
                .flatten()
                .skip(begin)
                .take(width);
            places
                .zip(inner)
                .for_each(|(place, character)| *place = character);
        }
        let makespan = forecast.makespan_ns as f64 / 1e3;
        let mut text = match self.ir.is_measured() {
            true => format!("\ntime, one execution alone: {makespan:.1} us\n"),
            false => "\norder, one execution alone (durations are not measured):\n".to_owned(),
        };
        for (lane, row) in self.lanes.iter().zip(rows) {
            let drawn: String = row.into_iter().collect();
            let _ = writeln!(
                text,
                "  lane {:>3} process {:>2} |{drawn}|",
                lane.address.lane.0, lane.address.process.0
            );
        }
        text
    }

    fn channel(&self, channel: &ChannelPlan) -> String {
        let kind = match channel.kind {
            ChannelKind::Local => "local ",
            ChannelKind::Ring => "ring  ",
            ChannelKind::Shared => "shared",
            ChannelKind::Mirror => "mirror",
        };
        let writer = match channel.writer {
            Writer::Submit => "submit".to_owned(),
            Writer::Lane(place) => format!("lane {}", place.lane.0),
        };
        let readers: Vec<String> = channel
            .readers
            .iter()
            .map(|reader| reader.lane.0.to_string())
            .collect();
        let (id, value) = (channel.id.0, self.ir.value_name(channel.value));
        let mut to = Vec::new();
        if !readers.is_empty() {
            to.push(format!("lane {}", readers.join(", ")));
        }
        if channel.mirrors > 0 {
            to.push(format!("mirrors on {} hosts", channel.mirrors));
        }
        let to = to.join(" and ");
        let slots = match channel.kind {
            ChannelKind::Local => String::new(),
            ChannelKind::Ring => format!("    {} slots", channel.slots),
            ChannelKind::Shared | ChannelKind::Mirror => {
                format!("    {} slots of {} B", channel.slots, channel.slot_bytes)
            }
        };
        format!("{id:>3} {kind} {value}: {writer} -> {to}{slots}")
    }

    fn tensor_path(&self, plan: &TensorPathPlan) -> String {
        let TensorPathPlan {
            value,
            reader,
            path,
            why,
        } = plan;
        let reader = reader.and_then(|reader| self.ir.actor(reader));
        let reader = reader.map_or("driver", |actor| actor.name.as_str());
        let mut text = format!("{} -> {reader}: {path}: {why}", self.ir.value_name(*value));
        if self
            .ir
            .value(*value)
            .is_some_and(|value| value.tensors.static_shape)
        {
            text.push_str("; shapes are those of the first");
        }
        text
    }

    /// Returns the name of a value as an argument. A signal carries no data and is written as `after`.
    fn argument(&self, value: ValueId) -> String {
        let name = self.ir.value_name(value);
        let signal = self.ir.value(value).is_some_and(|value| value.signal);
        if signal { format!("after {name}") } else { name }
    }

    fn step(&self, step: Operation) -> String {
        let label = self.ir.label(step.task);
        format!("{} {label}", step.kind)
    }
}
