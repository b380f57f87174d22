//! Aliases: references that stand for what another reference stands for.
//!
//! A function that returns a reference makes its own result an *alias* of that reference, its *target*. Targets may be aliases
//! themselves, so the references of one object form a tree whose root is the *canonical* reference, the only one that a value
//! was made under. The design is that of Photon, the first object store of Ray.
//!
//! [`AliasTable`] says what each reference of an owner stands for. It counts nothing: the object of an alias holds one handle on its
//! target, so the reference count frees a class exactly when its last member goes, member by member.
//!
//! - `ALIAS-T1`: the target of a reference is decided once.
//! - `ALIAS-T2`: the aliases of a reference are exactly those whose target it is.
//! - `ALIAS-T3`: the targets form no circle.
//! - `ALIAS-T4`: a refused call changes nothing.
//!
//! The order in which aliases and values are announced makes no difference:
//!
//! ```
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_objects::alias::{AliasTable, Resolution};
//! use selvedge_objects::refs::RefId;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let me = ProcessId::HEAD.first_life();
//! let [h, g, f] = [1, 2, 3].map(|number| RefId { owner: me, creator: me, number });
//! let mut table = AliasTable::default();
//! [h, g, f].map(|id| table.register(id));
//!
//! table.alias(h, g)?;
//! assert_eq!(table.resolve(h)?, Resolution::Undecided(g));
//! table.ready(f)?;
//! assert_eq!(table.alias(g, f)?, [g, h]); // both stand for a value now
//! assert_eq!(table.resolve(h)?, Resolution::Canonical(f));
//! # Ok(())
//! # }
//! ```

mod error;
mod mutant;
mod table;

#[cfg(test)]
mod model;

pub use error::AliasError;
pub use table::{AliasTable, Resolution, Target};
