//! Members of a large cluster: a head and the agents of many hosts, which run the product's membership
//! ([`selvedge_cluster::membership`]) and sessions, for hours of virtual time.
//!
//! - [`setting`]: the size of a cluster, and what goes wrong in it;
//! - [`host`]: a host, with its agent and its workers;
//! - [`head`]: the head;
//! - [`cluster`]: the queue of events, and the network;
//! - [`report`]: what a run has found.
//!
//! Workers have no events of their own: they live with their agent, which tells the head when one ends.

pub mod cluster;
pub mod head;
pub mod host;
pub mod report;
pub mod setting;
