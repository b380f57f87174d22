//! Hand-overs: the pairs of events by which one task passes a value to another.

use crate::ir::{GraphIr, TaskId};
use crate::run::trace::Event;
use selvedge_core::{IdMap, IdSet};

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
