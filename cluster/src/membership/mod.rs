//! The membership: who belongs to the cluster, who is dead, and who has a link to whom.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/membership) of this folder has the rules, the
//! invariants `MEMBER-1` to `MEMBER-5` and `LINK-1` to `LINK-3`, and the models that check them. Times are durations since any fixed moment, which
//! differ from process to process; no wall clock decides anything.

mod contact;
mod error;
mod head;
mod mutant;
mod notice;
mod pair_link;
mod settings;
mod view;

#[cfg(test)]
mod link_model;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use contact::{Contact, ContactStep};
pub use error::{MissingNotice, NoLink, Refusal};
pub use head::{MemberEvent, Members};
pub use notice::{Change, Notice, WhyDead};
pub use pair_link::{Dialer, LinkName, LinkStep, PairLink};
pub use settings::MemberSettings;
pub use view::{Standing, View};
