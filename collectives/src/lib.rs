//! Collectives of selvedge: operations that a group of ranks does together.
//!
//! This layer knows no actors and no graphs. Its items, from the interface to the implementations:
//!
//! - [`Collective`], [`ReduceOp`]: the operations.
//! - [`Communicator`]: one rank of a group, for any implementation. It plans an operation once and launches it many
//!   times.
//! - [`Contribute`]: values of user programs that can be contributed.
//! - `nccl`: ranks on NVIDIA devices (feature `cuda`).
//! - [`shm`]: ranks in threads and processes of one host, over shared memory: [`Group`], [`Rank`].
//! - [`hosts`]: ranks on several hosts, of which the first on each host sends the others its share.
//! - `rendezvous`: how the ranks of one host come together and agree, for `shm` and `nccl`.
//! - [`parts`]: the parts of a contribution; `kernel`: combines
//!   the elements of several ranks.
//!
//! | feature | adds |
//! |---|---|
//! | `candle` | an allreduce for models of candle on the CPU: module `candle` |
//! | `contract` | the contract of communicators as tests for any implementation: module `contract`, macro `communicator_contract!` |
//! | `cuda` | ranks on NVIDIA devices: modules `nccl` and `gpu` |
//! | `fault-points` | points in the protocol where a test can make a process die |

pub mod backend;
#[cfg(feature = "candle")]
pub mod candle;
pub mod communicator;
#[cfg(feature = "contract")]
pub mod contract;
pub mod error;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod hosts;
#[cfg(feature = "cuda")]
pub mod nccl;
pub mod operation;
pub mod parts;
pub mod payload;
pub mod shm;

mod kernel;
mod rendezvous;

/// The README's code is compiled and run.
#[cfg(all(doctest, not(miri)))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use backend::{Backend, Joining};
#[cfg(feature = "cuda")]
pub use communicator::OnDevice;
pub use communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId};
pub use error::CommError;
pub use operation::{Collective, ReduceOp};
pub use parts::Part;
pub use payload::Contribute;
pub use shm::{Group, GroupDescriptor, Loan, Rank};
