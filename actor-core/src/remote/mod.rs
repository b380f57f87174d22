//! Remote functions: a call runs a function in another process, or in this one. The
//! [README](https://github.com/selvedge-rs/selvedge/tree/main/actor-core/src/remote) of this folder has the letters, the states
//! of a call, and the threads.
//!
//! - `function`: a function as plain data, found by number in every process; `near`: similar names, for errors
//! - `argument`: what may be written for a parameter; `here`: the same for a parameter with `#[here]`; `parameter`: how an argument
//!   becomes what the function takes; `argument_store`: large ones of submitted calls, which travel by reference
//! - `remote_call`: the description of a call, and functions as values; `chosen`: which options have an effect with which verb
//! - `verbs`: what a runtime does with a described call; `scope`: several calls as one; `composite`: their errors
//! - `call_batch`: several calls of one function that travel as one; `turns`: such batches one after the other
//! - `calls`: the table of calls, plain data; `message`: the letters between two services of calls
//! - `request`: a call to be made
//! - `service`: the service of a process, with `asking` for its own calls and `serving` for those of others
//! - `waiter`: the promise of an answer; `job`: a call where its function runs; `resolving`: one whose arguments are
//!   on their way
//! - `piece`: the kinds of work; `executor`: threads for functions that block, with `places` for the rule of how many; `async_thread`: one thread for
//!   async functions; `threads`: the count of all of them
//! - `unreachable`: why other processes cannot be reached
//! - `init`: the initialisation of a process before its first function

pub(crate) mod argument;
pub(crate) mod argument_store;
pub(crate) mod asking;
pub(crate) mod async_thread;
mod awaited;
pub(crate) mod call_batch;
pub(crate) mod calls;
pub(crate) mod chosen;
pub(crate) mod composite;
mod executor;
pub(crate) mod function;
pub(crate) mod here;
pub(crate) mod init;
mod interrupt;
mod job;
pub(crate) mod message;
pub(crate) mod near;
mod on_demand;
pub(crate) mod parameter;
mod piece;
mod places;
pub(crate) mod put;
mod refusals;
pub(crate) mod remote_call;
pub(crate) mod request;
mod resolving;
pub(crate) mod scope;
pub(crate) mod service;
mod serving;
pub(crate) mod threads;
mod turns;
pub(crate) mod unreachable;
pub(crate) mod verbs;
pub(crate) mod waiter;

#[cfg(test)]
mod tests;
