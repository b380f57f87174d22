//! Faults: messages in place of a value. A fault is a failure of user code or a tombstone.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// User code of the writer failed.
    Failed,
    /// The value is no longer wanted.
    Cancelled,
}

#[derive(Debug)]
struct Inner {
    report: Vec<u8>,
    original: Option<Arc<dyn Error + Send + Sync>>,
}

/// A fault: cheap to clone, opaque to channels. Only the layers above read its `report`.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: FaultKind,
    inner: Option<Arc<Inner>>,
}

/// A value, or the fault that takes its place.
pub type Message<T> = Result<T, Fault>;

impl Fault {
    /// Makes a failure from its encoded report, and the original error if that was made in this process.
    pub fn failed(report: Vec<u8>, original: Option<Arc<dyn Error + Send + Sync>>) -> Self {
        Fault {
            kind: FaultKind::Failed,
            inner: Some(Arc::new(Inner { report, original })),
        }
    }

    /// Makes a tombstone.
    pub const fn cancelled() -> Self {
        Fault {
            kind: FaultKind::Cancelled,
            inner: None,
        }
    }

    /// The kind of the fault.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The encoded report; empty for a tombstone.
    pub fn report(&self) -> &[u8] {
        self.inner.as_ref().map_or(&[], |inner| &inner.report)
    }

    /// The original error, if it was made in this process.
    pub fn original(&self) -> Option<&Arc<dyn Error + Send + Sync>> {
        self.inner.as_ref().and_then(|inner| inner.original.as_ref())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::Failed => "failed",
            FaultKind::Cancelled => "cancelled",
        })
    }
}
