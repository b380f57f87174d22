//! Worker processes: the same executable, run again, under the supervision of the driver.
//!
//! The modules, in the order of a worker's life:
//! - `launch`: the driver starts a process through a `Launcher`. The local one runs `/proc/self/exe` with one end of a socket pair as its standard input.
//! - `premain`: the new process sees `SELVEDGE_WORKER_FD` and becomes a worker instead of running `main`.
//! - `initialised`: the mark of a process that would become a worker.
//! - `hello`: both sides check that they are the same program.
//! - `protocol`: the messages and their frames.
//! - `serve`: the main loop of the worker: lanes, calls, programs.
//! - `exit`: its exit codes.
//! - `link`: the driver's end of the socket: requests and answers.
//! - `words`, `writer`, `letters`: what is said is read and written over the socket, or as letters of the hub to another host.
//! - `output`: the worker's standard output and error, line by line.
//! - `record`: the driver's data about the process.
//!
//! The parts that belong to the operating system (sockets, pidfds, the hook before `main`, the build id, the sentinels
//! whose end reveals a death early) are in [`platform`](crate::platform).
//!
//! A worker ends in one of these ways:
//! - the driver tells it to end (`Shutdown`), or kills it after the grace period;
//! - the driver dies: `PR_SET_PDEATHSIG` kills the worker (set in `premain`, which checks the parent's pid against a
//!   race), and, should that fail, the end of the socket's stream ends it;
//! - it dies by itself: the kernel closes its end of the socket; the driver reads the end of the stream and reaps the
//!   process.
//!
//! Signals to the whole group or service (Ctrl-C) do not end a worker: its driver decides.

pub(crate) mod exit;
mod initialised;
pub(crate) mod launch;
pub(crate) mod premain;

pub(crate) mod hello;
pub(crate) mod protocol;

pub(crate) mod serve;

#[cfg(feature = "hosts")]
pub(crate) mod letters;
pub(crate) mod link;
pub(crate) mod output;
pub(crate) mod record;
pub(crate) mod words;
pub(crate) mod writer;

/// The environment variable with the number of the descriptor of a worker's link.
pub(crate) const ENV_FD: &str = "SELVEDGE_WORKER_FD";
/// The environment variable with the pid of the process that started the worker.
pub(crate) const ENV_DRIVER: &str = "SELVEDGE_DRIVER_PID";
/// The environment variable with the depth of a process among workers that start workers: 0, or absent, for a program
/// that a person started.
pub(crate) const ENV_DEPTH: &str = "SELVEDGE_DEPTH";
/// The depth at which a process may no longer start workers.
pub(crate) const DEPTH_MAX: u32 = 4;
