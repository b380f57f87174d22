//! Ranks on NVIDIA devices (feature `cuda`): NCCL moves the bytes, and the group in host memory agrees on the
//! operations.
//!
//! NCCL alone hangs if a rank has died, is late, or calls something else. It cannot say which rank, and it cannot
//! cancel an operation that it was given. So the ranks first *agree* on every operation, by the same protocol as ranks
//! on the host: each rank publishes its operation, or its failure, and the liveness of its process is watched. NCCL is
//! called when all ranks have said that they will do the same, so no rank is ever alone in a transfer. The agreement
//! costs a synchronisation on the host, some 0.2 µs on neighbouring cores. The device has not begun by then, and its
//! own start costs ten times as much.
//!
//! - [`NcclRank`]: a rank, for tensors on a device and on the host; `operation`, `phase`: the progress of its operation;
//!   [`BACKEND`]: the backend that graphs select by name.
//! - `connect`: the connection of the ranks; `transfer`: an operation as NCCL calls.
//! - `comm`, `library`: NCCL's calls, and the library; they contain all unsafe code.
//!
//! NCCL differs from the reference: it combines elements in an order of its own, it has no 16-bit integers, its average
//! of integers wraps, and its minimum or maximum of a NaN and a number may be the number.
//!
//! Ranks of one group need a device each; NCCL before 2.30 refuses two ranks on one device.

mod backend;
mod comm;
mod connect;
mod library;
mod operation;
mod phase;
mod rank;
mod transfer;

pub use backend::BACKEND;
pub use library::Nccl;
pub(crate) use library::nccl;
pub use rank::NcclRank;

/// The name of the backend.
const NAME: &str = "nccl";
