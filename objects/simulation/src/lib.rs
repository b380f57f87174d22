//! A simulated network of processes that run the product's protocols: sessions ([`selvedge_cluster::session`]),
//! references ([`selvedge_objects::refs`]) and remote channels ([`selvedge_objects::channel`]).
//!
//! Time is virtual, everything happens on one thread, and one seed decides everything: who does what and when, and
//! which frame is lost, repeated, delayed or overtaken. Two runs of a seed are equal event by event, as their hash shows.
//!
//! - [`faults`]: what the network does to frames, and how many processes die;
//! - [`world`]: the processes, their users, and the queue of events;
//! - [`report`]: what a run has found;
//! - [`frames`]: the number of frames that passing a reference takes, without faults;
//! - [`jobs`]: remote channels, from which workers take jobs.

pub mod faults;

pub mod random;

pub mod process;

pub mod world;

pub mod users;

pub mod oracle;

pub mod report;

pub mod frames;

pub mod jobs;
