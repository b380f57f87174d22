//! Submitted calls: scheduled, run again if they are pure and their worker dies, and owned by the process that schedules.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/actor-core/src/task) of this folder has the life of a submitted call.
//!
//! - `options`: the options of a call for the scheduler, and how a call is submitted by letter;
//! - `board`: all submitted calls of this process, with the scheduler, the lineage and the aliases, plain data; `step`: what happens to
//!   one, and what has to be done in consequence; `loss`: what happens when a value is lost, and how its call runs again;
//! - `tasks`: events come in, one thread after the other steps the board; `perform`: what is done in consequence;
//! - `outer`: a pure call that runs, as the one that submits others; `adopt`: such a call submits again what is known;
//! - `receiving`: a call that another process submits;
//! - `blocking`: a submitted call that waits gives its cpus back;
//! - `verbs`: what users call; `wait`: the wait for some of many values; `listing`: the calls and functions, to look at.

mod adopt;
pub(crate) mod blocking;
mod board;
pub(crate) mod listing;
mod loss;
pub(crate) mod options;
pub(crate) mod outer;
mod perform;
mod receiving;
pub(crate) mod step;
pub(crate) mod tasks;
mod verbs;
mod wait;
