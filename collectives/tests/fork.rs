//! A forked child drops its copies of a rank and of the rank's results, and the parent keeps them. A program of its own with
//! one test, since a child of a program whose other threads work could find their locks taken.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)] // a test may panic

#[path = "../../channels/tests/support/forked.rs"]
mod forked;

use selvedge_channels::Tensor;
use selvedge_collectives::{Collective, Communicator, Contribution, Group, Part, Rank};

use forked::drop_in_a_child;

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
