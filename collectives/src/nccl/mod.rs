//! Ranks on devices of NVIDIA (feature `cuda`): NCCL moves the bytes, and the group in the memory of the host agrees on what is
//! moved.
//!
//! NCCL alone hangs where a rank has died, is late, or brings something else; it cannot say who, and what it was asked to do
//! it cannot be asked to forget. So every operation is *agreed on* first, by the same protocol as between ranks on the host:
//! what each brings, its failure in place of it, and whether it is alive. NCCL is called when all ranks have said that they
//! will do the same, and so no rank is ever alone in a transfer. That costs a meeting on the host, some 0.2 µs on neighbouring
//! cores; the device has not begun by then, and its own start costs ten times as much.
//!
//! - [`NcclRank`]: a rank, for tensors on a device and on the host; `phase`: how far its operation is; [`BACKEND`]: its kind, by
//!   name.
//! - `connect`: how ranks find each other; `transfer`: an operation in NCCL's words.
//! - `comm`, `library`: NCCL's calls, and the library; all that is unsafe.
//!
//! What NCCL does otherwise than the reference: it joins elements in an order of its own, it has no 16-bit integers, its
//! average of integers wraps, and its smaller and larger of a NaN and a number may be the number.
//!
//! Ranks of one group want a device each; NCCL before 2.30 refuses two on one device.

mod backend;
mod comm;
mod connect;
mod library;
mod phase;
mod rank;
mod transfer;

pub use backend::BACKEND;
pub use library::Nccl;
pub(crate) use library::nccl;
pub use rank::NcclRank;

/// The backend's name.
const NAME: &str = "nccl";
