//! `#[remote]`, `remote_fn!` and `#[worker_init]`.
//!
//! `function` reads and expands a function, `parameter` its parameters, `closure` a closure of `remote_fn!`, and `init` a function
//! of `#[worker_init]`.

mod closure;
mod facts;
mod function;
mod init;
mod parameter;

pub(crate) use closure::value;
pub(crate) use function::attribute;
pub(crate) use init::attribute as worker_init;
