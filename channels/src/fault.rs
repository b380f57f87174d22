//! What travels instead of a value: a failure of the user's code, or a tombstone.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The writer's code failed.
    Failed,
    /// The value is not wanted any more.
    Cancelled,
}

#[derive(Debug)]
struct Inner {
    report: Vec<u8>,
    original: Option<Arc<dyn Error + Send + Sync>>,
}

/// A fault: cheap to clone, opaque to channels. `report` is for the floors above.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: FaultKind,
    inner: Option<Arc<Inner>>,
}

/// A value, or what came instead of it.
pub type Message<T> = Result<T, Fault>;

impl Fault {
    /// A failure with its encoded report, and the original error where it was made in this process.
    pub fn failed(report: Vec<u8>, original: Option<Arc<dyn Error + Send + Sync>>) -> Self {
        Fault {
            kind: FaultKind::Failed,
            inner: Some(Arc::new(Inner { report, original })),
        }
    }

    /// A tombstone.
    pub const fn cancelled() -> Self {
        Fault {
            kind: FaultKind::Cancelled,
            inner: None,
        }
    }

    /// What kind of fault it is.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The encoded report; empty for a tombstone.
    pub fn report(&self) -> &[u8] {
        self.inner.as_ref().map_or(&[], |inner| &inner.report)
    }

    /// The original error, where it was made in this process.
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
