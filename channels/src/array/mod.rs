//! Arrays of numbers that several processes of one host map: each sees all elements, and each has a part of its own.
//!
//! - `memory`: the mapping of one process, [`ArrayMemory`], and the name by which others open it, [`ArrayMemoryId`];
//! - `control`: the words that say who looks at the elements, and who has claimed a part (how these keep apart: `../in_use.rs`);
//! - `split`: the part of each process;
//! - `view`: all elements, one by one, [`ArrayView`]; `part`: the own part as a slice, [`ArrayPart`];
//! - `untyped`: work at the own part for code that does not know the type of the elements;
//! - `elements`: loads and stores of one element;
//! - `error`: [`ArrayError`].
//!
//! A process has a *slot*, which it enters once. Slots below the number of parts have a part.
//!
//! - `ARR-1` an element is read and written by atomics of its own width, through a view, or plainly, through the part that contains
//!   it.
//! - `ARR-2` a view is counted in its process's slot before it looks for claims, and a claim is set before it looks for views.
//!   A `SeqCst` fence lies between, so of a view and a claim at most one goes on.
//! - `ARR-3` the parts are disjoint, and a part is claimed by the process of its slot alone.
//! - `ARR-4` the words of a process that has ended count as zero: it uses nothing any more.
//! - `ARR-5` the type, the length and the numbers of parts and slots stand in the memory. Whoever opens it reads each once, and
//!   keeps it.
//!
//! - `ARR-6` the elements of an array of a file belong to the processes of the array: only they write the file while one of them maps
//!   it. The lock of the file asks all programs to keep to that, and holds up none that does not ask for a lock. Nothing in this
//!   crate can enforce it, as nothing can keep a debugger out of a process; so it is a duty of whoever names the file, and no
//!   function is `unsafe` for it.
//!
//! Processes that map the array can write all of it. As everywhere in shared memory, arbitrary *contents* do no harm, and a peer
//! that breaks this protocol is no peer.

mod control;
mod elements;
mod error;
mod memory;
mod part;
mod split;
mod untyped;
mod view;

pub use error::ArrayError;
pub use memory::{ArrayMemory, ArrayMemoryId, ArraySpec};
pub use part::ArrayPart;
pub use split::part_of;
pub use untyped::{copy_own_part, fill_own_part};
pub use view::ArrayView;

#[cfg(test)]
mod tests;
