//! The contract of every communicator, for the one over shared memory: over the heap of a process, and over memory that
//! processes map.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)] // a test may panic

/// The example, which is a user-defined communicator.
#[allow(clippy::wildcard_imports, unreachable_pub)]
#[path = "../examples/toy.rs"]
mod toy;

mod of_ones_own {
    use selvedge_collectives::communicator_contract;

    communicator_contract!(super::toy::group);
}

mod heap {
    use selvedge_channels::Waiting;
    use selvedge_collectives::{Group, Rank, communicator_contract};

    fn ranks(count: usize) -> Vec<Rank> {
        let group = Group::in_process(count).unwrap();
        // Spinning takes long in an interpreter.
        let group = if cfg!(miri) {
            group.waiting(Waiting::Park)
        } else {
            group
        };
        (0..count).map(|rank| group.rank(rank).unwrap()).collect()
    }

    communicator_contract!(ranks);
}

#[cfg(not(miri))] // Miri has no memfd
mod mapped {
    use selvedge_collectives::{Group, Rank, communicator_contract};

    /// Makes ranks, every second one through the descriptor, as another process would.
    fn ranks(count: usize) -> Vec<Rank> {
        let group = Group::new(count).unwrap();
        let other = Group::open(&group.descriptor().unwrap().to_string().parse().unwrap()).unwrap();
        (0..count)
            .map(|rank| [&group, &other][rank % 2].rank(rank).unwrap())
            .collect()
    }

    communicator_contract!(ranks);
}
