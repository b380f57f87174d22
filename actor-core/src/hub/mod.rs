//! The way to other processes. `post` is the seam: services above it send and receive letters, and know no links.

#![allow(dead_code, reason = "the links, which use it, are not there yet")]

pub(crate) mod post;
