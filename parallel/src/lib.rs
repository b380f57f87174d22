//! Parallel work over the worker processes of a runtime.
//!
//! A [`Pool`] is a set of workers, each of which does one piece of work at a time. There are two ways to give work to a pool:
//!
//! - [`Pool::map`] calls a remote function for each of many items. A worker gets the next items when it is free, so items may take
//!   different times.
//! - [`Pool::range`] cuts a range of numbers into one chunk for each worker, and calls a remote function for each chunk. This suits
//!   small amounts of work for each number.
//!
//! Three kinds of data are for such work: a [`SharedArray`], which all processes of a host read and write; a [`DistArray`], of which each
//! worker has a part; and a [`Global`], of which each worker has a copy.
//!
//! ```
//! use selvedge::prelude::*;
//!
//! #[remote]
//! fn square(x: u64) -> u64 { x * x }
//!
//! # fn main() -> Result<()> {
//! # if !cfg!(target_os = "linux") { return Ok(()) }
//! # selvedge::init();
//! let runtime = Runtime::new();
//! let workers = [runtime.worker("one")?, runtime.worker("two")?];
//! let pool = runtime.pool_of(&workers)?;
//! assert_eq!(pool.map(remote_fn!(square), 0..4).batch(2).collect()?, [0, 1, 4, 9]);
//!
//! let steps = 1000;
//! let area = remote_fn!([steps: u64] |chunk: std::ops::Range<u64>| -> f64 {
//!     chunk.map(|i| (i as f64 + 0.5) / steps as f64).map(|x| 1.0 / (1.0 + x * x)).sum()
//! });
//! let pi = 4.0 / steps as f64 * pool.range(0..steps).reduce(area, |one, other| one + other)?.unwrap_or(0.0);
//! assert!((pi - std::f64::consts::PI).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```

#![warn(missing_debug_implementations)]

// `#[remote]` writes paths of the facade, of which this crate has what its own remote functions need.
extern crate self as selvedge;

#[path = "private.rs"]
mod __private;
mod all_values;
mod array_like;
mod dist;
mod error;
mod global;
mod map;
mod pool;
mod range;
mod retry;
mod schedule;
mod shared;
mod split;

pub use array_like::{ArrayLike, LocalMatrix, NotSquare};
pub use dist::{DistArray, DistElement, DistError};
pub use error::{MapError, PoolError};
#[doc(hidden)] // for code that `#[remote]` generates
pub use global::GlobalValue;
pub use global::{Global, GlobalError, GlobalInfo};
pub use map::Map;
pub use pool::{Pool, PoolWorker};
pub use range::{Loop, RangeWork};
pub use selvedge_channels::array::{ArrayError, ArrayPart};
pub use shared::{ArrayIndex, FileMode, SharedArray, SharedArrayBuilder, SharedArrayError, SharedView};
pub use split::split_range;

use selvedge_channels::Wire;
use selvedge_core::{
    CallError, IntoArgument, IntoReference, Ref, RemoteCall, RemoteFunction, Runtime, Worker,
};

/// How a runtime makes pools and globals. The trait cannot be implemented outside.
pub trait Parallel: sealed::Sealed {
    /// A pool of all workers that live, also in a worker or a job; of the process that made the runtime if there is none.
    ///
    /// # Errors
    /// [`PoolError::Channel`]: the runtime was shut down.
    fn pool(&self) -> Result<Pool, PoolError>;

    /// A pool of these workers.
    ///
    /// # Errors
    /// [`PoolError::NoWorker`]: the list is empty. [`PoolError::OtherRuntime`]: a worker is not of this runtime.
    /// [`PoolError::Channel`]: the runtime was shut down.
    fn pool_of(&self, workers: &[Worker]) -> Result<Pool, PoolError>;

    /// A global without a value yet.
    fn global<T: Wire>(&self, name: impl Into<String>) -> Global<T>;

    /// The copies of globals that a worker has, with their sizes, in the order of their names.
    ///
    /// # Errors
    /// [`CallError`]: the worker has not answered.
    fn globals(&self, worker: &Worker) -> Result<Vec<GlobalInfo>, CallError>;
}

/// The supertrait that keeps public traits from being implemented outside, so that they may get further methods.
mod sealed {
    /// A type of this package's choice.
    pub trait Sealed {}
}

impl sealed::Sealed for Runtime {}

impl Parallel for Runtime {
    fn pool(&self) -> Result<Pool, PoolError> {
        Pool::of_all(self)
    }

    fn pool_of(&self, workers: &[Worker]) -> Result<Pool, PoolError> {
        match workers.is_empty() {
            true => Err(PoolError::NoWorker),
            false => Pool::new(self, workers),
        }
    }

    fn global<T: Wire>(&self, name: impl Into<String>) -> Global<T> {
        Global::new(self, name)
    }

    fn globals(&self, worker: &Worker) -> Result<Vec<GlobalInfo>, CallError> {
        self.call(global::list_globals::remote().on(worker)).wait()
    }
}
