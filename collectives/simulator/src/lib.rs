//! The CUDA driver and NCCL over the memory of the host: the same C interface, so that the very code that drives a GPU runs,
//! and can be judged, where there is none.
//!
//! It is faithful rather than fast. Streams are threads with queues, device memory is memory that other processes can map, a
//! wait is for the last record that was called, and NCCL's operations complete only when everybody has started theirs. Above
//! that it sees what a device hides: two operations that nothing orders and that touch the same bytes are reported, always,
//! however lucky their timing was; and it can say whether a program hangs, without a clock.
//!
//! | module | what it is |
//! |---|---|
//! | `abi` | the functions that C calls: arguments in, codes out |
//! | `settings`, `report`, `random` | what the environment asks for, and what is told |
//! | `clock`, `history`, `race` | what happened before what, and what did not |
//! | `shared`, `ledger` | memory between processes, and how clocks and histories lie in it |
//! | `engine`, `point`, `host` | streams, what they wait for, and what hosts have seen |
//! | `memory`, `space`, `virtual_memory`, `copy`, `words`, `mapping` | allocations and addresses, and what is done to bytes |
//! | `event`, `context`, `kernels` | the driver's other objects |
//! | `calls`, `rendezvous`, `board`, `group`, `communicator`, `elements`, `process` | NCCL: who meets whom, and what they then do |
//! | `ffi`, `host_bytes`, `code` | what crosses the C interface |

mod abi;
mod board;
mod calls;
mod clock;
mod code;
mod communicator;
mod context;
mod copy;
mod elements;
mod engine;
mod event;
mod ffi;
mod group;
mod history;
mod host;
mod host_bytes;
mod kernels;
mod ledger;
mod mapping;
mod memory;
mod point;
mod process;
mod race;
mod random;
mod rendezvous;
mod report;
mod settings;
mod shared;
mod space;
mod virtual_memory;
mod words;
