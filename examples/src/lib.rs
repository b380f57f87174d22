//! What the examples share: the digits data, and the model that recognises them.

pub mod data;
pub mod model;
