//! Copies of stored objects on several hosts: who has one, and how another host gets one, as state machines without input or output.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/objects/src/transfer) of this folder has the states and the
//! invariants `COPY-1` to `COPY-7`.
//!
//! [`CopyList`] belongs to the owner of objects, and [`Pulls`] to a host agent. A process can have both: what one sends to its own
//! process goes to the other. Neither reads a clock, maps memory or sends anything: they return [`TransferAction`]s.
//!
//! ```
//! use selvedge_cluster::peer::ProcessId;
//! use selvedge_objects::transfer::{CopyAt, CopyList, CopyName, Pulls, TransferAction, TransferSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let peer = |number| ProcessId::new(number).map(ProcessId::first_life);
//! let (owner, agent) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?);
//! let name = CopyName { maker: owner, number: 1 };
//! let mut list = CopyList::new(owner);
//! list.list(name, 5, Some(7), Some(CopyAt { agent: owner, attempt: 0 }));
//!
//! let mut pulls = Pulls::new(agent, TransferSettings::default());
//! let Some(TransferAction::Send { message: seek, .. }) = pulls.want(1, name, owner).pop() else { return Err("silent".into()) };
//! let Some(TransferAction::Send { message: sources, .. }) = list.heard(agent, &seek).pop() else { return Err("silent".into()) };
//! let asked = pulls.heard(owner, &sources);
//! assert!(matches!(asked.first(), Some(TransferAction::Reserve { bytes: 5, .. })));
//! assert!(pulls.want(2, name, owner).is_empty());     // joins the pull
//! # Ok(())
//! # }
//! ```

mod message;
mod mutant;
mod name;

mod list;
mod orphans;
mod pull;
mod pulls;

#[cfg(test)]
mod model;

pub use list::CopyList;
pub use message::{TransferAction, TransferMessage};
pub use name::{CopyAt, CopyFacts, CopyName};
pub use pulls::{CopyReport, Pulls, TransferSettings};
