//! A CUDA driver and an NCCL over the memory of the host: they have the same C interface, so that the code that drives
//! a GPU runs unchanged, and can be checked, on machines without one.
//!
//! The simulator is faithful rather than fast. Streams are threads with queues, device memory is memory that other
//! processes can map, a wait is for the last record that was called, and NCCL's operations complete only when all ranks
//! have started theirs. In addition it detects errors that a device hides: two unordered operations that touch the same
//! bytes are always reported, whatever their timing was; and it decides without a clock whether a program hangs.
//!
//! | module | content |
//! |---|---|
//! | `abi` | the functions that C calls: arguments in, codes out |
//! | `settings`, `report`, `random` | the settings from the environment, and the reports |
//! | `clock`, `history`, `race` | the order of operations, and the lack of it |
//! | `shared`, `ledger` | memory between processes, and the layout of clocks and histories in it |
//! | `engine`, `point`, `host` | streams, the things they wait for, and the operations that hosts have seen |
//! | `memory`, `space`, `virtual_memory`, `copy`, `words`, `mapping` | allocations, addresses, and operations on bytes |
//! | `event`, `context`, `kernels` | the driver's other objects |
//! | `calls`, `rendezvous`, `board`, `group`, `communicator`, `elements`, `process` | NCCL: calls, their matching and execution |
//! | `ffi`, `host_bytes`, `code` | the data that passes through the C interface |

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
