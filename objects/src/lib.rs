//! Objects that several processes hold.
//!
//! An object lives in one process, its owner. Other processes hold *references* to it, pass them on, and drop them. The
//! object is freed when nobody holds a reference any more: exactly then, although messages are lost, repeated and
//! reordered, and although processes die.
//!
//! - [`refs`]: the reference count, as a state machine without input or output;
//! - [`alias`]: references that stand for other references, likewise;
//! - [`store`]: the memory of a host in which large objects lie, likewise;
//! - [`transfer`]: who has copies of such objects, and how they come to other hosts, likewise;
//! - [`names`]: objects that have names, and live as long as these, likewise;
//! - [`channel`]: a bounded queue in one process that others put into and take from, likewise.

pub mod refs;

pub mod alias;
pub mod store;
pub mod transfer;

pub mod channel;
pub mod names;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

#[cfg(test)]
mod mutants;
