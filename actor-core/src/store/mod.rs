//! The object store of a host: memory in which large objects lie, and which all processes of the host map.
//!
//! The process that made the runtime is the *host agent*: it has the memory, a memfd of fixed length, and says who may fill and who
//! reads which part of it. Its decisions are [`selvedge_objects::store`]; this folder gives them memory, a file and letters:
//!
//! - `options.rs`: sizes and the folder for spilled objects;
//! - `stores.rs`: the store as a process sees it, the agent or another one;
//! - `host_store.rs`: the agent's side; `disk.rs`: its thread for what takes long; `spill_file.rs`: the file of spilled objects;
//! - `borrowed.rs`: memory that is filled; `pin.rs`: an object that is read;
//! - `message.rs`: the letters between them.

pub(crate) mod borrowed;
mod disk;
pub(crate) mod host_store;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod pin;
mod spill_file;
pub(crate) mod stores;
