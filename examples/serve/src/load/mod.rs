//! Clients that put a service under load and measure the answers.
//!
//! [`client`] sends, [`request`] times one answer, [`drive`] sends many, [`report`] and [`plot`] show the results;
//! [`server`] starts a service to measure, and [`trial`] implements the command `load`.

pub mod client;
pub mod request;

pub mod drive;

pub mod plot;
pub mod report;

pub mod server;

pub mod arguments;
pub mod trial;
