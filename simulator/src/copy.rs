//! Copies and fills.

use std::borrow::Cow;
use std::sync::Arc;

use crate::code::{Cu, INVALID_VALUE};
use crate::engine::{self, Operation};
use crate::history::Intent;
use crate::host_bytes::HostBytes;
use crate::memory::{self, Span, Use};
use crate::point::Point;
use crate::{host, space};

/// One end of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Memory that the driver knows: of a device, or pinned or registered memory of the host.
    Known(Vec<Span>),
    /// Other memory of the host.
    Pageable(HostBytes),
}

impl Place {
    /// Returns the memory at a device address that a device may use.
    pub(crate) fn device(device: u32, address: u64, len: u64) -> Cu<Self> {
        space::resolve_for(device, address, len).map(Place::Known)
    }

    /// Returns the memory at a host address.
    pub(crate) fn host(address: u64, len: u64) -> Cu<Self> {
        let space = space::space();
        match space.find(address) {
            Some(_) => space.resolve(address, len, u64::MAX).map(Place::Known),
            None => HostBytes::new(address, len)
                .map(Place::Pageable)
                .ok_or(INVALID_VALUE),
        }
    }

    fn uses(&self, intent: Intent) -> Vec<Use> {
        match self {
            Place::Known(spans) => Use::all(spans, intent).collect(),
            Place::Pageable(_) => Vec::new(),
        }
    }
}

/// Whether the host waits for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    /// Only if the driver must make it wait: for a copy into memory that is not pinned.
    IfPageable,
}

/// Enqueues a copy in a stream.
pub(crate) fn copy(name: &'static str, stream: u64, to: Place, from: Place, wait: Wait) -> Cu {
    let mut uses = from.uses(Intent::Read);
    uses.extend(to.uses(Intent::Write));
    let waits = wait == Wait::Yes || matches!(to, Place::Pageable(_));
    // Memory that is not pinned is read before the call returns, so that the caller may change it.
    let staged = match &from {
        Place::Pageable(bytes) => Some(bytes.read()),
        Place::Known(_) => None,
    };
    let run = Box::new(move |_: &mut engine::Turn| {
        let bytes = match (&from, staged) {
            (Place::Known(spans), _) => memory::read(spans),
            (Place::Pageable(_), staged) => staged.unwrap_or_default(),
        };
        match &to {
            Place::Known(spans) => memory::write(spans, &bytes),
            Place::Pageable(host) => host.write(&bytes),
        }
    });
    let operation = Operation {
        name: Cow::Borrowed(name),
        uses,
        run,
        done: None,
    };
    enqueue(stream, operation, waits)
}

/// Enqueues a fill with a byte in a stream.
pub(crate) fn fill(name: &'static str, stream: u64, to: Vec<Span>, byte: u8, wait: bool) -> Cu {
    let uses = Use::all(&to, Intent::Write).collect();
    let run = Box::new(move |_: &mut engine::Turn| {
        let len: u64 = to.iter().map(|span| span.len).sum();
        memory::write(&to, &vec![byte; len as usize]);
    });
    let operation = Operation {
        name: Cow::Borrowed(name),
        uses,
        run,
        done: None,
    };
    enqueue(stream, operation, wait)
}

fn enqueue(stream: u64, mut operation: Operation, waits: bool) -> Cu {
    if !waits {
        return engine::enqueue(stream, operation);
    }
    let point = Point::new();
    operation.done = Some(Arc::clone(&point));
    engine::enqueue(stream, operation)?;
    engine::wait_on_host(&point);
    if let Some(clock) = point.reached() {
        host::observe(&clock);
    }
    Ok(())
}
