//! Graphs over several hosts: what joins the memory of one host to that of another.
//!
//! Processes of two hosts share no memory. So each host has a segment of its own, with a control block and the channels of
//! its lanes, and no lane notices that there are others. Each process that takes part has a [`Joint`]: a thread, and a
//! correspondent for the letters of the other joints.
//!
//! ```text
//!  writer's host                                                reader's host
//!  lane ──▶ shared channel ──▶ shuttle ══ letter: Message ══▶ mirror ──▶ lane, lane
//!                 ▲ slot is free again                            │ slot is filled
//!                 └────────────────── letter: Taken ◀═════════════┘
//! ```
//!
//! - `outgoing`: the near end of a shuttle. It reads the writer's shared channel as one more reader and sends each message
//!   once, however many readers there are on the other host. Long tensors that only one shuttle reads come by a bypass, and
//!   are sent from where they lie. `lent`: other long messages are sent from their slots.
//! - `incoming`: the far end, which writes the mirror. The readers there share the mirror as they share any channel. `placed`: long
//!   messages are received into their slots.
//! - `joint`: the letters, and what follows from them; `turning`: the thread.
//! - `near`: all near ends of a process; `berth`: how a lane sends what it has written without waking the joint's thread.
//! - `shares`: what the leaders of collectives over several hosts send each other.
//! - `asking`: the driver's question how far the lanes of other hosts are.
//! - `word`: what the letters say.
//!
//! Where a process is alone on its host, no other thread has a part in a short message: the lane that writes it sends it
//! (`BERTH-1`, `BERTH-2`), and the lane that waits for it reads the link meanwhile (`Runtime::berth`). Where several processes share a
//! host, they ring each other through shared memory, and the joint's thread and that of the links do both.
//!
//! The letters travel over the links of the hub, so they arrive once and in order over any number of connections that are
//! reset, and a process that is dead is known to be dead.
//!
//! Invariants:
//! - `JOINT-1` message i of a mirror is sent only when the far end has written message i - K to the mirror, where K is the number of
//!   slots. So at most K messages of a shuttle are on their way or wait for a slot, and a far end that finds more was sent
//!   them by a process that is not honest.
//! - `JOINT-2` the far end takes only message i from the writer's process after message i - 1. Messages are numbered as executions are, so
//!   no execution is lost, doubled or mixed with another (`LOOP-1`).
//! - `JOINT-3` nothing is sent before the driver has seen all processes load the graph (`Begin`), so no letter finds nobody.
//! - `JOINT-4` the driver decides how the graph ends. A host that fails tells the driver, and only the driver tells the others to stop; the
//!   first failure that it hears of is the cause.
//! - `JOINT-5` a joint keeps its mirrors open until the control block of its host says that the graph has ended. So a lane that finds a
//!   channel closed finds out first that the graph does not run.
//! - `JOINT-6` a process that loads the graph after the driver has given it up hears that from the driver (`CORR-1`).

mod asking;
mod berth;
mod incoming;
mod joint;
mod lent;
mod near;
mod outgoing;
#[cfg(test)]
mod pair_tests;
mod placed;
mod shares;
mod turning;
mod word;

pub(crate) use self::berth::JointBerth;
pub(crate) use self::incoming::Incoming;
pub(crate) use self::joint::{Joint, JointParts};
pub(crate) use self::lent::Told;
pub(crate) use self::outgoing::Outgoing;
pub(crate) use self::shares::Shares;
