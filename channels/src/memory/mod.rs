//! Memory that processes share, and the processes that share it.

pub mod claim;
pub mod deaths;
pub mod made_in;
pub mod process;
pub mod region;
pub mod segment;
