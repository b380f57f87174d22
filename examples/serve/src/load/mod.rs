//! Clients that put a service under load and measure what they get.

pub mod client;
