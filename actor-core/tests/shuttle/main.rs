//! Links under shuttle. Threads that wait read their letters and those of others, hand the reading on when they go, and every one of
//! them is woken (`hub/callers.rs`). Threads that write to a full ring are told of room (`hub/outlet.rs`). The code of the lead, the
//! lookout, the turns and the sleepers is the library's own. Sockets, byte rings and the system's wait are models (`hub/stream.rs`,
//! `platform/lead_poll.rs`).
//!
//! Schedules are random, or follow priorities that change at a few random points (PCT; Burckhardt et al., ASPLOS 2010). A schedule in
//! which all threads wait is a failure; a failure prints its schedule, so that it can be replayed.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p selvedge-core --test shuttle --release`
#![cfg(shuttle)]
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic, and needs but a part of what it includes

mod sync;

#[path = "../../src/looking.rs"]
mod looking;
#[path = "../../src/sleeper.rs"]
mod sleeper;

mod cores {
    pub(crate) fn core_count() -> usize {
        2
    }
}

mod platform {
    pub(crate) mod lead_poll;
}

mod hub {
    #[path = "../../../src/hub/lead.rs"]
    pub(crate) mod lead;
    #[path = "../../../src/hub/lookout.rs"]
    mod lookout;
    #[path = "../../../src/hub/read_turn.rs"]
    mod read_turn;
    #[path = "../../../src/hub/turn_reader.rs"]
    mod turn_reader;
    #[path = "../../../src/hub/write_turn.rs"]
    mod write_turn;

    mod callers;
    mod outlet;
    mod stream;
}
