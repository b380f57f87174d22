//! What frees objects: releases, deaths, and what comes home.
#![allow(missing_docs, clippy::unwrap_used)]

mod network;

use network::{Network, peer};
use selvedge_objects::refs::{Action, Event, RefStats, RefStatus};

#[test]
fn rref_17_a_parent_is_kept_for_each_fork_until_that_child_has_accepted() {
    let mut net = Network::new(4);
    let id = net.keep(2, 1);
    net.settle();
    net.pass(id, 2, 3);
    net.pass(id, 2, 4);
    assert_eq!(net.at(2).stats().children, 2, "from the moment of passing");
    net.drop(2, id);
    for (child, left) in [(3, 1), (4, 0)] {
        net.flush(child, 2);
        assert_eq!(
            net.at(2).stats().children,
            left + 1,
            "not before the owner has answered"
        );
        net.deliver(child, 1);
        net.deliver(1, child);
        net.deliver(child, 2);
        assert_eq!(net.at(2).stats().children, left);
    }
    net.settle();
    assert_eq!((net.at(2).status(id), net.at(1).stats().forks), (None, 2));
}

#[test]
fn jgc_01_an_object_is_freed_only_after_every_reference_is_gone() {
    let mut net = Network::new(5);
    let id = net.keep(2, 1);
    (2..5).for_each(|at| {
        net.pass(id, at, at + 1);
    });
    for at in 2..=5 {
        net.settle();
        assert_eq!(net.did(1, &Action::Free(id)), 0);
        net.drop(at, id);
    }
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1);
}

#[test]
fn jgc_02_the_owner_is_told_of_each_process_that_gets_a_reference_and_that_drops_it() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    let mut forks = vec![net.at(1).stats().forks];
    net.pass(id, 2, 3);
    net.settle();
    forks.push(net.at(1).stats().forks);
    net.drop(2, id);
    net.settle();
    forks.push(net.at(1).stats().forks);
    assert_eq!(forks, [1, 2, 1]);
}

#[test]
fn jgc_08_a_dead_process_is_struck_off_everything_in_one_step() {
    let mut net = Network::new(3);
    let ids: Vec<_> = (0..50).map(|_| net.keep(2, 1)).collect();
    net.pass(ids[0], 2, 3);
    net.settle();
    net.done.clear();
    net.step(1, Event::Dead(peer(2)));
    assert_eq!(net.at(1).stats().forks, 1, "process 3 holds one");
    let freed = net.done.iter().filter(|(_, it)| matches!(it, Action::Free(_)));
    assert_eq!(freed.count(), 49);
    assert_eq!(net.at(1).load(peer(2)), 0);
}

#[test]
fn jgc_10_a_reference_sent_to_its_owner_is_held_by_the_owner_itself() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.pass(id, 2, 1);
    net.drop(2, id);
    net.settle();
    let mut only = RefStats::default();
    only.owned += 1;
    assert_eq!(net.at(1).stats(), only);
    assert_eq!(net.at(1).status(id), Some(RefStatus::Confirmed));
    net.drop(1, id);
    assert_eq!(net.did(1, &Action::Free(id)), 1);
}
