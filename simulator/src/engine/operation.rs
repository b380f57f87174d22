//! The operations in a stream's queue, and the things that a stream may wait for.

use std::borrow::Cow;
use std::sync::Arc;

use super::Turn;
use crate::clock::VectorClock;
use crate::memory::Use;
use crate::point::Point;
use crate::{host, ledger, report};

/// A thing that a stream may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A point in a stream of this process.
    Point(u64),
    /// An object in shared memory, by its nonce.
    Shared(u64),
    /// Words in memory.
    Words,
    /// A host that releases a busy kernel.
    Release,
}

/// Whether a thread outside this process may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Process,
    Outside,
}

/// A unit of work in a stream.
pub(crate) struct Operation {
    pub(crate) name: Cow<'static, str>,
    pub(crate) uses: Vec<Use>,
    /// The work, called when the stream reaches it.
    pub(crate) run: Box<dyn FnOnce(&mut Turn) + Send>,
    /// A point that is reached when the operation has ended and no longer uses its memory.
    pub(crate) done: Option<Arc<Point>>,
}

impl Operation {
    /// Creates an operation that uses no memory.
    pub(crate) fn new(name: &'static str, run: impl FnOnce(&mut Turn) + Send + 'static) -> Self {
        Operation {
            name: name.into(),
            uses: Vec::new(),
            run: Box::new(run),
            done: None,
        }
    }
}

/// An operation in a queue, with the clock and the time at which it was enqueued.
pub(super) struct Enqueued {
    pub(super) operation: Operation,
    pub(super) known: VectorClock,
    pub(super) at_ns: u64,
}

impl Enqueued {
    /// Enqueues an operation with the present clock.
    pub(super) fn now(operation: Operation) -> Self {
        let mut known = host::seen();
        for used in operation
            .uses
            .iter()
            .filter(|used| used.span.allocation.is_between_processes())
        {
            known.merge(&ledger::observed(used.span.allocation.shared()));
        }
        Enqueued {
            operation,
            known,
            at_ns: report::now_ns(),
        }
    }
}

/// Returns an operation that reaches a point.
pub(crate) fn record(point: &Arc<Point>, name: &'static str) -> Operation {
    let point = Arc::clone(point);
    Operation::new(name, move |turn| turn.reach(&point))
}

/// Returns an operation that waits for a point.
pub(crate) fn wait(point: Arc<Point>, name: &'static str) -> Operation {
    Operation::new(name, move |turn| turn.wait_for(&point))
}
