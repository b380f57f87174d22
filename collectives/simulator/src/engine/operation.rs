//! What is put into a stream's queue, and what a stream may wait for.

use std::borrow::Cow;
use std::sync::Arc;

use super::Turn;
use crate::clock::VectorClock;
use crate::memory::Use;
use crate::point::Point;
use crate::{host, ledger, report};

/// What a stream may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A place in a stream of this process.
    Point(u64),
    /// Something in shared memory, by its nonce.
    Shared(u64),
    /// Words in memory.
    Words,
    /// A host that releases a busy kernel.
    Release,
}

/// Whether something outside this process may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Process,
    Outside,
}

/// What a stream does when its turn comes.
pub(crate) type Run = Box<dyn FnOnce(&mut Turn) + Send>;

/// Something to be done in a stream.
pub(crate) struct Operation {
    pub(crate) name: Cow<'static, str>,
    pub(crate) uses: Vec<Use>,
    pub(crate) run: Run,
    /// Reached when it has ended, and uses nothing any more.
    pub(crate) done: Option<Arc<Point>>,
}

impl Operation {
    /// One that uses no memory.
    pub(crate) fn new(name: &'static str, run: impl FnOnce(&mut Turn) + Send + 'static) -> Self {
        Operation {
            name: name.into(),
            uses: Vec::new(),
            run: Box::new(run),
            done: None,
        }
    }
}

/// An operation in a queue, with what was known when it got there.
pub(super) struct Enqueued {
    pub(super) operation: Operation,
    pub(super) known: VectorClock,
    pub(super) at_ns: u64,
}

impl Enqueued {
    /// With what is known now.
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

/// An operation that reaches a point.
pub(crate) fn record(point: &Arc<Point>, name: &'static str) -> Operation {
    let point = Arc::clone(point);
    Operation::new(name, move |turn| turn.reach(&point))
}

/// An operation that waits for a point.
pub(crate) fn wait(point: Arc<Point>, name: &'static str) -> Operation {
    Operation::new(name, move |turn| turn.wait_for(&point))
}
