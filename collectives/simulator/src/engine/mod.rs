//! Streams: a thread each, with a queue.
//!
//! One lock holds the state of all streams of the process, so that it can be told exactly whether anything can still happen.
//! A stream that waits says for what ([`Key`]), and whoever makes that true unblocks it under the lock, before its own
//! operation ends: between the two there is no moment at which everybody seems stuck.
//!
//! | file | what is in it |
//! |---|---|
//! | `operation` | what is put into a queue |
//! | `state` | all streams, what they wait for, and whether anything can still happen |
//! | `stream` | what hosts ask of streams |
//! | `turn` | a stream's thread, and what it does with an operation |

mod operation;
mod state;
mod stream;
mod turn;

pub(crate) use operation::{Key, Operation, Reach, Run, record, wait};
pub(crate) use state::{Manner, Settled, notify, ring, settle, settled};
pub(crate) use stream::{
    about, create, default_of, destroy, destroy_all, enqueue, handles, query, synchronize, wait_on_host,
};
pub(crate) use turn::Turn;
