//! Processes of remote functions in one process: each is a runtime whose letters go through memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod copies;
mod functions;
mod hostile;
mod names;
mod network;
mod rows;
mod submissions;
