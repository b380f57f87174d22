//! Traces in Chrome's trace-event format, which Perfetto reads as well.
//!
//! A process of selvedge is a process of that format, a lane is a thread, and an operation is a complete event (`X`). A
//! flow (`s`, `f`) leads from the WRITE of a value to the COMPUTE of each task that reads it. Times are microseconds of
//! the monotonic clock.

use selvedge_core::{ActorId, IdMap, IdSet, ProcessId};

use crate::ir::{ActorIr, GraphIr, Plan, TaskId};
use crate::run::trace::Event;

/// Quotes a string for JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats nanoseconds as microseconds.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// Returns the middle of an operation, where an arrow begins or ends.
fn middle(event: &Event) -> u64 {
    event.start_ns + event.end_ns.saturating_sub(event.start_ns) / 2
}

/// The numbers of the process and of the lane that run each actor.
struct TracePlaces<'a> {
    plan: &'a Plan,
    actors: IdMap<ActorId, (u32, u32)>,
}

impl<'a> TracePlaces<'a> {
    fn of(plan: &'a Plan) -> Self {
        let place = |actor: &ActorIr| (actor.id, (actor.home.process.0, actor.lane.0));
        let actors = plan.ir.actors.iter().map(place).collect();
        TracePlaces { plan, actors }
    }

    fn of_task(&self, task: TaskId) -> Option<(u32, u32)> {
        self.actors.get(&self.plan.ir.task(task)?.actor).copied()
    }
}

impl Plan {
    /// Returns the events of [`Graph::trace`](crate::Graph::trace) as a file for `ui.perfetto.dev` or
    /// `chrome://tracing`. An arrow is drawn if both of its ends are among the events. O(events · log events).
    pub fn trace_json(&self, events: &[Event]) -> String {
        let mut rows = self.names();
        let places = TracePlaces::of(self);
        rows.extend(events.iter().filter_map(|event| self.operation(event, &places)));
        rows.extend(self.flows(events, &places));
        format!(
            "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
            rows.join(",\n")
        )
    }

    /// Returns the names of processes and lanes. A lane is named after its actors.
    fn names(&self) -> Vec<String> {
        let mut lanes: IdMap<(u32, u32), Vec<&str>> = IdMap::new();
        for actor in &self.ir.actors {
            let place = (actor.home.process.0, actor.lane.0);
            lanes.push_to(place, &actor.name);
        }
        let processes: IdSet<u32> = lanes.keys().map(|(process, _)| *process).collect();
        let name = |what: &str, pid: u32, tid: u32, name: &str| {
            let name = quoted(name);
            format!(r#"{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{{"name":{name}}}}}"#)
        };
        let process = |pid: &u32| match ProcessId(*pid) {
            ProcessId::DRIVER => name("process_name", *pid, 0, &format!("{} (driver)", self.graph)),
            worker => name("process_name", *pid, 0, &format!("worker {worker}")),
        };
        let lane = |((pid, tid), actors): (&(u32, u32), &Vec<&str>)| {
            name(
                "thread_name",
                *pid,
                *tid,
                &format!("lane {tid}: {}", actors.join(", ")),
            )
        };
        processes
            .iter()
            .map(process)
            .chain(lanes.iter().map(lane))
            .collect()
    }

    fn operation(&self, event: &Event, places: &TracePlaces<'_>) -> Option<String> {
        let (process, lane) = places.of_task(event.task_id)?;
        let bound_at = quoted(&self.ir.task(event.task_id)?.bound_at.to_string());
        let (task, operation) = (quoted(&event.task), quoted(&event.operation));
        let (start, took) = (
            micros(event.start_ns),
            micros(event.end_ns.saturating_sub(event.start_ns)),
        );
        Some(format!(
            r#"{{"ph":"X","name":{task},"cat":{operation},"ts":{start},"dur":{took},"pid":{process},"tid":{lane},"args":{{"operation":{operation},"execution":{},"bound at":{bound_at}}}}}"#,
            event.execution
        ))
    }

    /// Returns the flows from the WRITE of each value to each COMPUTE that reads it.
    fn flows(&self, events: &[Event], places: &TracePlaces<'_>) -> Vec<String> {
        let mut rows = Vec::new();
        for (write, compute) in handovers(&self.ir, events) {
            let ends = (places.of_task(write.task_id), places.of_task(compute.task_id));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let (id, name) = (rows.len() / 2, quoted(&write.task));
            let end = |phase: &str, at: u64, (process, lane): (u32, u32)| {
                let at = micros(at);
                format!(
                    r#"{{"ph":{phase},"name":{name},"cat":"edge","id":{id},"ts":{at},"pid":{process},"tid":{lane}}}"#
                )
            };
            // A reader may begin before the middle of the recorded WRITE. The arrow leads forward in time even then.
            let arrives = middle(compute);
            rows.push(end(r#""s""#, middle(write).min(arrives), from));
            rows.push(end(r#""f","bp":"e""#, arrives, to));
        }
        rows
    }
}

/// Returns the WRITE of each value with each COMPUTE that reads it in the same execution, if both are among `events`.
/// O(events · log events).
pub(super) fn handovers<'e>(ir: &GraphIr, events: &'e [Event]) -> Vec<(&'e Event, &'e Event)> {
    let of = |operation: &str| -> IdMap<(TaskId, u64), &'e Event> {
        let those = events.iter().filter(|event| event.operation == operation);
        those
            .map(|event| ((event.task_id, event.execution), event))
            .collect()
    };
    let (writes, computes) = (of("WRITE"), of("COMPUTE"));
    let mut found = Vec::new();
    for ((reader, execution), compute) in computes {
        let Some(task) = ir.task(reader) else { continue };
        let makers: IdSet<TaskId> = GraphIr::reads(task)
            .filter_map(|(_, value)| ir.maker(value))
            .collect();
        let writes = makers.iter().filter_map(|maker| writes.get(&(*maker, execution)));
        found.extend(writes.map(|write| (*write, compute)));
    }
    found
}
