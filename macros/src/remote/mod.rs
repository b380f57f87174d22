//! `#[remote]`, `remote_fn!` and `#[worker_init]`.
//!
//! `function` reads and expands a function, `parameter` its parameters, `task` the actor that it is in a graph, `closure` a closure of `remote_fn!`, and `init` a function
//! of `#[worker_init]`.

mod closure;
mod facts;
mod function;
mod init;
mod parameter;
mod task;

pub(crate) use closure::value;
pub(crate) use function::attribute;
pub(crate) use init::attribute as worker_init;
