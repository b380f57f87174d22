//! Descriptors that a reactor watches.

#![allow(unsafe_code, reason = "registers a descriptor with the reactor")]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

/// A descriptor that a reactor watches.
pub(super) type Watched = AsyncFd<Arc<OwnedFd>>;

/// Has the reactor of the current thread's context watch a descriptor.
pub(super) fn watch(
    descriptor: Arc<OwnedFd>,
    interest: Interest,
) -> Result<Watched, AsyncFdRegisterError<Arc<OwnedFd>>> {
    // SAFETY: an `OwnedFd` names the same open descriptor as long as it exists, the `AsyncFd` holds a share of the
    // `Arc`, and `Arc` gives out no `&mut` with which other code could replace the descriptor.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }
}
