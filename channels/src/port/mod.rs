//! The ends that a lane works with: every value and every output of its tasks, whatever kind of channel carries it.

mod devices;
mod familiar;
pub(crate) mod head;
pub mod outlet;
pub mod payload_probe;
pub mod payload_type;
pub(crate) mod schema;
pub mod value;
