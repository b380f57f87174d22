//! The reading end of event rings: records become events.

use std::sync::atomic::{Ordering, fence};

use selvedge_channels::Region;

use crate::ir::{ActorIr, Plan, TaskId, TaskIr};
use crate::run::clock::ClockReading;
use crate::run::layout::Layout;
use crate::run::trace::Event;
use crate::run::trace::recorder::{RECORD_BYTES, Times, WORDS, What};

/// The number of attempts to read a record that changes meanwhile. Within a lap a record changes once, when it is
/// closed.
const LOOKS: usize = 4;

/// All events that are still in the rings, by start time. The first `finished` executions have ended, as far as the
/// caller knows. Events that are being overwritten meanwhile may be missing, so the rings are best read while the graph
/// is idle.
pub(crate) fn read(
    plan: &Plan,
    layout: &Layout,
    begin: ClockReading,
    finished: u64,
    region_of: impl Fn(usize, usize) -> Option<Region>,
) -> Vec<Event> {
    let now = ClockReading::now();
    let actors = plan.ir.actors_by_id();
    let of_task = |id: TaskId| {
        let task = plan.ir.task(id)?;
        Some((task, *actors.get(&task.actor)?))
    };
    let mut events = Vec::new();
    for spans in layout.lanes.values() {
        let Some(ring) = region_of(spans.trace.offset, spans.trace.len) else {
            continue;
        };
        let records =
            (0..spans.trace.len / RECORD_BYTES).filter_map(|at| read_record(&ring, at * RECORD_BYTES));
        events.extend(records.flat_map(|record| match of_task(record.1) {
            Some(found) => of_record(found, record, finished, begin, now),
            None => Vec::new(),
        }));
    }
    events.sort_by_key(|event| (event.start_ns, event.end_ns));
    events
}

/// The events of one record, of a task of an actor.
fn of_record(
    (found, actor): (&TaskIr, &ActorIr),
    (what, task, execution, times): (What, TaskId, u64, Times),
    finished: u64,
    begin: ClockReading,
    now: ClockReading,
) -> Vec<Event> {
    let (what, times, under_way) = so_far(what, times, execution < finished, now.ticks());
    let event = |(operation, start, end): (&str, u64, u64)| Event {
        under_way: under_way && operation == "COMPUTE",
        actor: actor.name.clone(),
        method: found.method_name.clone().into_owned(),
        task: found.label.clone(),
        task_id: task,
        bind_index: found.bind_index,
        operation: operation.to_owned(),
        execution,
        start_ns: begin.ns_of(now, start),
        end_ns: begin.ns_of(now, end),
    };
    operations(what, found.args.len(), times)
        .into_iter()
        .map(event)
        .collect()
}

pub(super) fn read_record(ring: &Region, base: usize) -> Option<(What, TaskId, u64, Times)> {
    let [about, execution, start, read, end] = ring.atomics::<WORDS>(base).ok()?;
    for _ in 0..LOOKS {
        // SYNC trace-event: pairs with the release in `Recorder::write` and `Recorder::close`.
        let word = about.load(Ordering::Acquire);
        let (what, task) = What::from_word(word)?;
        // Relaxed: the acquire above and the fence below order these loads.
        let [execution, start, read, end] =
            [execution, start, read, end].map(|word| word.load(Ordering::Relaxed));
        // SYNC trace-torn: pairs with the fence in `Recorder::pass`.
        fence(Ordering::Acquire);
        if about.load(Ordering::Relaxed) == word {
            return Some((what, task, execution, Times { start, read, end }));
        }
    }
    None
}

/// The kind and the times of a record as of `now`, and whether the record is in flight.
pub(super) fn so_far(what: What, times: Times, finished: bool, now: u64) -> (What, Times, bool) {
    if what != What::Open {
        return (what, times, false);
    }
    // If the execution has finished, its lane has only to close the record, unless a fault or a cancellation has left
    // the task behind.
    let what = if finished { What::Run } else { What::Computed };
    let end = now.max(times.read);
    (what, Times { end, ..times }, !finished)
}

/// The operations in a record of a task with `reads` arguments, each with its begin and its end.
pub(super) fn operations(what: What, reads: usize, times: Times) -> Vec<(&'static str, u64, u64)> {
    let Times { start, read, end } = times;
    let one = |operation| vec![(operation, start, end)];
    match what {
        What::Read => one("READ"),
        What::Compute => one("COMPUTE"),
        What::Write => one("WRITE"),
        What::Collective => one("COLLECTIVE"),
        What::Open | What::Run | What::Computed => {
            let mut all = vec![("READ", start, read); reads];
            all.push(("COMPUTE", read, end));
            if what == What::Run {
                all.push(("WRITE", end, end));
            }
            all
        }
    }
}
