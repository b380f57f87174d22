//! Streams: one thread and one queue each.
//!
//! One lock holds the state of all streams of the process, so that the simulator knows exactly whether anything can
//! still happen. A waiting stream registers the thing that it waits for ([`Key`]). The thread that makes the wait's
//! condition true unblocks the stream under the lock, before its own operation ends: so there is no moment in between
//! at which all streams seem stuck.
//!
//! | file | content |
//! |---|---|
//! | `operation` | the operations in a queue |
//! | `state` | all streams, the things they wait for, and whether anything can still happen |
//! | `stream` | the calls of hosts on streams |
//! | `turn` | a stream's thread, and the execution of an operation |

mod operation;
mod state;
mod stream;
mod turn;

pub(crate) use operation::{Key, Operation, Reach, record, wait};
pub(crate) use state::{Manner, Settled, notify, ring, settle, settled};
pub(crate) use stream::{
    about, create, default_of, destroy, destroy_all, enqueue, handles, query, synchronize, wait_on_host,
};
pub(crate) use turn::Turn;
