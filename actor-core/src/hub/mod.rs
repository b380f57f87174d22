//! The way to other processes. `post` is the seam: services above it send and receive letters, and know no links.

pub(crate) mod post;
