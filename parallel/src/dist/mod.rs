//! Distributed arrays: numbers of which each worker of a pool has a part.
//!
//! - `dist_type`: [`DistArray`]; `element`: the numbers of which one is made; `error`: [`DistError`].

mod dist_type;
mod element;
mod error;

pub use dist_type::DistArray;
pub use element::DistElement;
pub use error::DistError;
