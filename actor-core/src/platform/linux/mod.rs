//! Linux: `posix_spawn`, pidfds, socket pairs, `/proc`, affinity.

pub(crate) mod alarm;
pub(crate) mod build_id;
pub(crate) mod child;
pub(crate) mod cores;
pub(crate) mod exit;
#[cfg(feature = "hosts")]
pub(crate) mod host;
pub(crate) mod inspect_socket;
pub(crate) mod launch;
pub(crate) mod lead_poll;
pub(crate) mod link;
pub(crate) mod muting;
pub(crate) mod pages;
mod peer_rings;
pub(crate) mod peer_socket;
pub(crate) mod premain;
pub(crate) mod process_end;
pub(crate) mod restart;
pub(crate) mod sentinel;
pub(crate) mod signal;
pub(crate) mod unnamed_file;
mod watched;
