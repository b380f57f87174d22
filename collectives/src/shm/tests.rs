//! Ranks that one thread drives through orders of steps that went wrong.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test may panic

use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[cfg(not(miri))]
use std::time::Duration;

use selvedge_channels::Tensor;

use super::Rank;
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::Collective;
#[cfg(not(miri))]
use crate::operation::ReduceOp;
use crate::parts::Part;
use crate::rendezvous::{Group, looks};

const FROM_0: Collective = Collective::Broadcast { root: 0 };

fn filled(value: u32) -> Tensor {
    Tensor::from_slice(&[value; 16], &[16]).unwrap()
}

/// Launches a broadcast of rank 0, which brings this value.
fn launch(rank: &mut Rank, value: u32) {
    try_launch(rank, value).unwrap();
}

fn try_launch(rank: &mut Rank, value: u32) -> Result<(), CommError> {
    let plan = rank.plan(FROM_0).unwrap();
    let brought = filled(value);
    let parts = [Part::from(&brought)];
    rank.launch(plan, Contribution::Parts(&parts))
}

/// Rank 1 collects its result of a broadcast before look `turn` of rank 0, which launches the next one. Returns the number of looks.
fn collects_before(turn: usize) -> usize {
    let group = Group::in_process(2).unwrap();
    let [mut sender, mut receiver] = [0, 1].map(|rank| group.rank(rank).unwrap());
    launch(&mut sender, 1);
    launch(&mut receiver, 0);
    assert_eq!(sender.poll().unwrap().unwrap(), [filled(1)]);
    let (seen, kept) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
    let (looked, collected) = (Rc::clone(&seen), Rc::clone(&kept));
    let act = move || {
        if looked.replace(looked.get() + 1) == turn {
            *collected.borrow_mut() = receiver.poll().unwrap();
        }
    };
    looks::with(act, || launch(&mut sender, 2));
    let kept = kept.take().unwrap_or_else(|| vec![filled(1)]);
    assert_eq!(kept, [filled(1)], "collected before look {turn}");
    seen.get()
}

#[test]
fn a_block_is_used_again_only_when_nobody_holds_it_whenever_its_reader_finishes() {
    let looks: Vec<_> = (0..4).map(collects_before).collect();
    // A reader that has finished before the first look is asked what it holds, and the sender itself before it.
    assert_eq!(looks, [3, 1, 1, 1]);
}

#[test]
fn who_was_told_that_a_rank_has_left_arrives_no_more_so_slow_ranks_get_the_tensors_of_their_operation() {
    let group = Group::in_process(3).unwrap();
    let [mut root, mut leaver, mut slow] = [0, 1, 2].map(|rank| group.rank(rank).unwrap());
    launch(&mut root, 1);
    launch(&mut slow, 0);
    assert!(slow.poll().unwrap().is_none());
    launch(&mut leaver, 0);
    assert_eq!(root.poll().unwrap().unwrap(), [filled(1)]);
    assert_eq!(leaver.poll().unwrap().unwrap(), [filled(1)]);
    drop(leaver);
    launch(&mut root, 2);
    let left = |outcome: Result<(), CommError>| matches!(outcome, Err(CommError::PeerLeft { rank: 1 }));
    assert!(left(root.poll().map(drop)));
    let again = try_launch(&mut root, 3);
    assert_eq!(slow.poll().unwrap().unwrap(), [filled(1)]);
    assert!(left(again));
    launch(&mut slow, 0);
    assert!(left(slow.poll().map(drop)));
    assert!(left(try_launch(&mut slow, 0)));
}

/// The other rank maps the memory itself, and does not do so.
#[test]
#[cfg(not(miri))]
fn a_close_waits_for_its_own_time_and_not_for_that_of_the_group_too() {
    let group = Group::new(2).unwrap().timeout(Duration::MAX);
    let there = Group::open(&group.descriptor().unwrap()).unwrap();
    let (mut leaver, mut slow) = (group.rank(0).unwrap(), there.rank(1).unwrap());
    launch(&mut leaver, 1);
    launch(&mut slow, 0);
    assert_eq!(leaver.poll().unwrap().unwrap(), [filled(1)]);
    let closing = std::thread::spawn(|| Box::new(leaver).close(Duration::ZERO));
    let told = slow.recv(0, Some(Duration::from_secs(20)));
    // Ends a rank that waits for ever.
    drop(slow);
    closing.join().unwrap().unwrap();
    assert!(matches!(told, Err(CommError::PeerLeft { rank: 0 })), "{told:?}");
}

/// A peer that misbehaves names its ring as a message, and has put other memory in its place before.
#[test]
#[cfg(not(miri))]
fn a_ring_that_its_owner_exchanges_in_the_middle_of_an_operation_is_not_used_where_it_was() {
    let group = Group::new(2).unwrap();
    let there = Group::open(&group.descriptor().unwrap()).unwrap();
    let (mut peer, mut victim) = (group.rank(1).unwrap(), there.rank(0).unwrap());
    let vector = Tensor::from_slice(&[1_u32; 5_000], &[5_000]).unwrap();
    for rank in [&mut peer, &mut victim] {
        let plan = rank.plan(Collective::AllReduce(ReduceOp::Sum)).unwrap();
        rank.launch_private(plan, ReduceOp::Sum, &vector).unwrap();
    }
    // Both are in the middle of the vector.
    assert!(victim.poll().unwrap().is_none());
    assert!(peer.poll().unwrap().is_none());
    let ring = peer.ring.as_ref().unwrap().index;
    let other = peer
        .participant
        .loan([(vector.dtype(), vector.shape())].into_iter())
        .unwrap();
    other.block.write(0, &other.template.encoded).unwrap();
    let words = &peer.participant.group.words;
    let exchanged = words.segment(1, other.block.index).unwrap();
    words.set_segment(1, ring, &exchanged).unwrap();
    words.send(1, 0, 1, ring, other.template.encoded.len()).unwrap();
    victim.recv(1, Some(Duration::from_secs(20))).unwrap();
    // What the sum is, nobody knows; nothing is read or written where the ring was.
    while !matches!(victim.poll(), Ok(Some(_)) | Err(_)) {
        peer.poll().ok();
    }
}
