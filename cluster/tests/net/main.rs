//! Transports, and links over them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[cfg(target_os = "linux")]
mod carried;
mod contract;
mod direct_or;
mod handshake;
mod hostile;
#[cfg(target_os = "linux")]
mod killed;
mod messages;
mod mutants;
mod shortage;
mod support;
mod tls;
mod transports;
