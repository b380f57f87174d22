//! Where actors live: the placements that users ask for, and the lanes and workers that result.
//!
//! - `placement`: placements and policies, as users choose them.
//! - `handles`: [`Lane`](crate::Lane) and [`Worker`](crate::Worker).
//! - `keep`: the shared objects that keep lanes and workers alive.

pub(crate) mod handles;
pub(crate) mod keep;
pub(crate) mod placement;
