//! Worker processes: the same executable, run again, under the driver's watch.
//!
//! The path of a worker, in order:
//! - `launch`: the driver starts `/proc/self/exe` with one end of a socket pair as its standard input.
//! - `premain`: the new process sees `SELVEDGE_WORKER_FD` and becomes a worker instead of running `main`.
//! - `hello`, `build_id`: both sides make sure that they are the same program.
//! - `protocol`: the messages and their frames.
//! - `serve`: the worker's life: lanes, calls, programs.
//! - `link`: the driver's end of the socket: requests and answers.
//! - `output`: the worker's standard output and error, line by line.
//! - `record`: what the driver knows of the process.
//!
//! How a worker ends, whatever happens:
//! - the driver tells it to (`Shutdown`), or kills it after the grace;
//! - the driver dies: `PR_SET_PDEATHSIG` (set in `premain`, with a look at the parent's pid for the race), and, should
//!   that fail, the end of the socket's stream;
//! - signals to the whole group or service (Ctrl-C) do not end it: its driver decides;
//! - it dies by itself: the kernel closes its end of the socket, the driver reads the end of the stream, reaps it.

pub(crate) mod launch;
pub(crate) mod premain;

pub(crate) mod build_id;
pub(crate) mod hello;
pub(crate) mod protocol;

pub(crate) mod sentinel;
pub(crate) mod serve;

pub(crate) mod link;
pub(crate) mod output;
pub(crate) mod record;

/// The number of the descriptor a worker finds its link at.
pub(crate) const ENV_FD: &str = "SELVEDGE_WORKER_FD";
/// The pid of the process that started the worker.
pub(crate) const ENV_DRIVER: &str = "SELVEDGE_DRIVER_PID";
/// How many workers deep this process is: 0, or absent, for a program a person started.
pub(crate) const ENV_DEPTH: &str = "SELVEDGE_DEPTH";
/// A worker may be a driver of workers itself, this deep.
pub(crate) const DEPTH_MAX: u32 = 4;
