//! Names of objects: an object that has a name lives until the name is taken away, whoever gave it, and any process finds it.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/objects/src/names) of this folder has the protocol and the
//! invariants `NAME-1` to `NAME-5`.
//!
//! [`NameTable`] belongs to the head, and has the names. [`HeldNames`] belongs to the owner of objects, and has a handle of each object
//! with a name. Neither sends anything: events go into the table, [`NameAction`]s come out.
//!
//! ```
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_objects::names::{NameAction, NameAnswer, NameEvent, NameTable};
//! use selvedge_objects::refs::RefId;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let peer = |number| ProcessId::new(number).map(ProcessId::first_life);
//! let (head, owner, job) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?, peer(3).ok_or("zero")?);
//! let (name, type_name) = ("counter".to_owned(), "u64".to_owned());
//! let id = RefId { owner, creator: job, number: 1 };
//!
//! let mut table = NameTable::new(head);
//! let asked = table.step(NameEvent::Name { from: job, question: 1, name: name.clone(), type_name, id });
//! let Some(NameAction::Hold(object)) = asked.into_iter().next() else { return Err("the owner is asked first".into()) };
//! let held = table.step(NameEvent::Held { from: owner, name, naming: object.naming, refused: None });
//! assert_eq!(held.len(), 2);                          // the change, and then the answer
//! assert!(matches!(&held[1], NameAction::Answer { answer: NameAnswer::Done, .. }));
//! assert_eq!(table.named().count(), 1);
//! # Ok(())
//! # }
//! ```

mod event;
mod held;
mod limits;
mod mutant;
mod object;
mod table;

#[cfg(test)]
mod model;

pub use event::{NameAction, NameAnswer, NameChange, NameEvent, NameRefusal};
pub use held::HeldNames;
pub use limits::{NAME_BYTES_MAX, NAMES_MAX, TYPE_BYTES_MAX, check_name};
pub use object::{NamedObject, NamingId};
pub use table::NameTable;
