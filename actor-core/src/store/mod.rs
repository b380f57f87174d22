//! The object store of a host: memory in which large objects lie, and which all processes of the host map.
//!
//! The *host agent* has the memory, a memfd of fixed length, and says who may fill and who reads which part of it: on its own host the
//! process that made the runtime, on any other a worker. Its decisions are [`selvedge_objects::store`], and those about copies on
//! several hosts [`selvedge_objects::transfer`]; this folder gives them memory, a file and letters:
//!
//! - `options.rs`: sizes and the folder for spilled objects;
//! - `stores.rs`: the store as a process sees it, the agent or another one; `questions.rs`: what it asks the agent; `serving.rs`: what the
//!   agent is asked; `mappings.rs`: the memory of others;
//! - `host_store.rs`: the agent's side; `asker.rs`: those who ask it; `disk.rs`: its thread for what takes long; `spill_file.rs`: the file of spilled objects;
//! - `agents.rs`: which process is the agent of a host;
//! - `transfers.rs`: copies on several hosts: the owner's list of them, and pulls; `transfer_state.rs`: what its thread does; `placed.rs`: an object of this process, wherever it lies;
//! - `borrowed.rs`: memory that is filled; `loan.rs`: memory of another process's store; `pin.rs`: an object that is read;
//! - `message.rs`: the letters between them.

mod agents;
mod asker;
pub(crate) mod borrowed;
mod disk;
pub(crate) mod host_store;
mod loan;
mod mappings;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod pin;
pub(crate) mod placed;
mod questions;
mod serving;
mod spill_file;
pub(crate) mod stores;
mod transfer_state;
mod transfers;

#[cfg(test)]
mod tests;
