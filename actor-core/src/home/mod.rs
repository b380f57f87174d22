//! Where actors live: the placements that users ask for, and the places that result.

pub(crate) mod placement;
pub(crate) mod places;
