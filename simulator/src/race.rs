//! Reports operations that no edge orders.

use std::ops::Range;

use crate::clock::{Epoch, VectorClock};
use crate::history::{Access, Intent};
use crate::memory::{Allocation, Use};
use crate::process::Watch;
use crate::report::Line;
use crate::{host, ledger};

/// Checks an operation that is about to use this memory.
pub(crate) fn check(name: &str, uses: &[Use], epoch: Epoch, clock: &VectorClock) {
    for used in uses {
        let allocation = &used.span.allocation;
        let access = Access {
            epoch,
            intent: used.intent,
            bytes: used.span.offset..used.span.offset + used.span.len,
            name: name.to_owned(),
        };
        let races = ledger::change(
            allocation.shared(),
            allocation.is_between_processes(),
            |history| history.add(access.clone(), clock),
        );
        for other in races.into_iter().filter(|other| !is_of_the_dead(other)) {
            tell("race", &access, &other);
        }
    }
}

/// Checks a free by the host: all operations on the memory must be over, and the host must have seen their end.
pub(crate) fn check_free(allocation: &Allocation, what: &str) {
    judge(allocation, what, |_| true);
}

fn judge(allocation: &Allocation, what: &str, counts: impl Fn(&Access) -> bool) {
    let mut known = host::seen();
    let between = allocation.is_between_processes();
    if between {
        known.merge(&ledger::observed(allocation.shared()));
    }
    let unknown = ledger::change(allocation.shared(), between, |history| {
        let mut unknown = history.unknown_to(&known);
        unknown
            .find(|access| counts(access) && !is_of_the_dead(access))
            .cloned()
    });
    if unknown.is_none() && allocation.pending() == 0 {
        return;
    }
    let line = Line::new("free-in-use")
        .text("operation", what)
        .number("pending", allocation.pending());
    match unknown {
        Some(access) => who(line, "other", &access).violation(),
        None => line.violation(),
    }
}

/// Checks that the host unmaps memory from its addresses safely. The memory itself may stay, so only the operations of
/// this process count.
pub(crate) fn check_unmap(allocation: &Allocation, what: &str) {
    judge(allocation, what, |access| {
        access.epoch.component.pid() == std::process::id()
    });
}

/// Whether the process of an access has died: then its operations are over. A process that uses the memory again is
/// assumed to know of the death.
fn is_of_the_dead(access: &Access) -> bool {
    let pid = access.epoch.component.pid();
    pid != std::process::id() && Watch::new(pid).is_dead()
}

fn tell(kind: &str, new: &Access, old: &Access) {
    let Range { start, end } = new.bytes;
    let line = who(who(Line::new(kind), "operation", new), "other", old);
    line.number("start", start.max(old.bytes.start))
        .number("end", end.min(old.bytes.end))
        .violation();
}

fn who(line: Line, role: &str, access: &Access) -> Line {
    let intent = match access.intent {
        Intent::Read => "reads",
        Intent::Write => "writes",
    };
    line.text(role, &access.name)
        .text(&format!("{role}_intent"), intent)
        .number(&format!("{role}_pid"), u64::from(access.epoch.component.pid()))
        .number(&format!("{role}_stream"), access.epoch.component.0 & 0xffff_ffff)
        .number(&format!("{role}_number"), access.epoch.number)
}
