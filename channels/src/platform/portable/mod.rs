//! Every system but Linux: threads of one process, by `std` and `parking_lot_core` alone. Other processes are refused by
//! typed errors.

#[cfg(feature = "cuda")]
compile_error!("the feature `cuda` needs Linux, where devices share memory by descriptors");

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub(crate) mod cores;
#[cfg(not(loom))]
pub mod deaths;
pub(crate) mod error;
#[cfg(not(loom))]
pub mod extent_file;
#[cfg(not(loom))]
pub mod file_lock;
#[cfg(not(loom))]
pub(crate) mod forks;
#[cfg(not(loom))]
pub(crate) mod futex;
#[cfg(not(loom))]
pub(crate) mod mapped_file;
#[cfg(not(loom))]
pub mod names;
#[cfg(not(loom))]
pub mod passed;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub(crate) mod room;
#[cfg(not(loom))]
pub(crate) mod segment;
#[cfg(not(loom))]
pub(crate) mod user_memory;
