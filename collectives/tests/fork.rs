//! A forked child drops its copies of a rank and of the rank's results, and the parent keeps them. A program of its own with
//! one test, since a child of a program whose other threads work could find their locks taken.
#![allow(missing_docs, clippy::unwrap_used)] // a test may panic

use selvedge_channels::Tensor;
use selvedge_collectives::{Collective, Communicator, Contribution, Group, Part, Rank};

/// Drops a value in a forked child, and waits until the child has ended. The value of this process stays.
#[allow(unsafe_code)]
fn drop_in_a_child<T>(value: &mut Option<T>) {
    // SAFETY: the child only drops its copy of the value, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: sets a timer, whose signal ends a child that would wait for ever.
        unsafe { libc::alarm(30) };
        drop(value.take());
        // SAFETY: ends the child, which has no other thread.
        unsafe { libc::_exit(0) }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above, and writes to a local number.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child did not leave");
}

const COUNT: usize = 10_000;

fn tensor(value: u32) -> Tensor {
    Tensor::from_slice(&[value; COUNT], &[COUNT]).unwrap()
}

/// Broadcasts a value of rank 0; returns what each rank has then.
fn broadcast(ranks: &mut [Option<Rank>; 2], value: u32) -> [Vec<Tensor>; 2] {
    let brought = tensor(value);
    let parts = [Part::from(&brought)];
    let mut ranks = ranks.each_mut().map(|rank| rank.as_mut().unwrap());
    for rank in &mut ranks {
        let plan = rank.plan(Collective::Broadcast { root: 0 }).unwrap();
        rank.launch(plan, Contribution::Parts(&parts)).unwrap();
    }
    ranks.map(|rank| rank.wait(None).unwrap())
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_forked_child_that_drops_its_copies_leaves_no_group_and_gives_back_no_result() {
    let group = Group::new(2).unwrap();
    let mut ranks = [0, 1].map(|rank| Some(group.rank(rank).unwrap()));
    let mut kept = Some(broadcast(&mut ranks, 1));
    drop_in_a_child(&mut kept);
    for rank in &mut ranks {
        drop_in_a_child(rank);
    }
    for value in 2..6 {
        for results in broadcast(&mut ranks, value) {
            assert_eq!(results, [tensor(value)]);
        }
    }
    assert_eq!(
        kept.unwrap(),
        [[tensor(1)], [tensor(1)]],
        "nobody has written there"
    );
}
