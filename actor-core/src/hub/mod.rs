//! The hub: the letters of this process to others, and theirs to it.

pub(crate) mod post;
