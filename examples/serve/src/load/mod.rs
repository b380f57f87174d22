//! Clients that put a service under load and measure what they get.
//!
//! [`client`] sends, [`request`] times one answer, [`drive`] sends many, [`report`] and [`plot`] say what came of it; [`server`]
//! starts a service to measure, and [`trial`] does what the command `load` is asked for.

pub mod client;
pub mod request;

pub mod drive;

pub mod plot;
pub mod report;

pub mod server;

pub mod arguments;
pub mod trial;
