//! The rules of counted references, one by one, over a network that the test scripts.
#![allow(missing_docs, clippy::unwrap_used)]

mod network;

use std::collections::BTreeSet;

use network::{Network, peer};
use proptest::prelude::*;
use selvedge_objects::refs::{
    Action, Event, Fork, Message, Parcel, RefError, RefId, RefStats, RefStatus, Refs,
};

#[test]
fn rref_01_an_object_is_freed_with_its_last_holder_and_no_sooner() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    net.pass(id, 2, 3);
    net.settle();
    net.drop(2, id);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 0, "process 3 holds it");
    net.drop(3, id);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1);
    (1..=3).for_each(|at| assert_eq!(net.at(at).stats(), RefStats::default()));
}

#[test]
fn rref_02_a_reference_exists_before_its_owner_has_heard_of_it() {
    let mut net = Network::new(3);
    let parcel = net.at(2).keep(std::time::Duration::ZERO, peer(1)).unwrap();
    assert_eq!(net.at(2).status(parcel.id()), Some(RefStatus::Pending));
    assert!(net.at(2).pass(parcel.id(), peer(3)).is_ok());
    assert_eq!(net.at(1).stats(), RefStats::default());
}

#[test]
fn rref_03_the_owner_is_the_callee_and_it_alone_counts() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.settle();
    assert_eq!(id.owner, peer(1));
    assert_eq!((net.at(1).stats().owned, net.at(1).stats().forks), (1, 1));
    assert_eq!((net.at(2).stats().owned, net.at(2).stats().forks), (0, 0));
}

#[test]
fn rref_04_each_creator_gives_names_that_nobody_else_gives() {
    let mut net = Network::new(3);
    let mut ids = BTreeSet::new();
    for _ in 0..10 {
        ids.extend([net.keep(2, 1), net.keep(3, 1), net.keep(2, 3), net.at(1).create()]);
    }
    assert_eq!(ids.len(), 40);
    assert!(ids.iter().all(|id| id.number > 0));
}

#[test]
fn rref_05_each_fork_has_a_name_of_its_own() {
    let mut net = Network::new(3);
    let (own, kept) = (net.at(2).create(), net.keep(2, 1));
    let mut names = BTreeSet::new();
    for to in [1, 3, 1, 3] {
        for id in [own, kept] {
            match net.at(2).pass(id, peer(to)).unwrap() {
                Parcel::Given { id, fork } | Parcel::Lent { id, fork } => names.insert((id, fork)),
                Parcel::Keep { .. } => panic!("{id} is passed"),
            };
        }
    }
    assert_eq!(names.len(), 8);
    let forks: BTreeSet<_> = names.iter().map(|(_, fork)| fork).collect();
    assert_eq!(forks.len(), 8, "the number alone is enough");
}

#[test]
fn rref_06_an_owner_has_one_entry_however_it_hears_of_the_object() {
    let mut net = Network::new(3);
    let keep = net.at(2).keep(std::time::Duration::ZERO, peer(1)).unwrap();
    net.pass(keep.id(), 2, 3);
    net.deliver(3, 1);
    net.pass(keep.id(), 2, 1);
    net.call(2, 1, &[keep]);
    net.settle();
    assert_eq!(net.at(1).stats().owned, 1);
    assert_eq!(net.at(1).ids().collect::<Vec<_>>(), [keep.id()]);
}

#[test]
fn rref_07_users_are_many_and_the_value_is_with_the_owner_only() {
    let mut net = Network::new(5);
    let id = net.keep(2, 1);
    (3..=5).for_each(|to| {
        net.pass(id, 2, to);
    });
    net.settle();
    assert_eq!(net.at(1).stats().forks, 4);
    for user in 2..=5 {
        assert_eq!((net.at(user).stats().owned, net.at(user).stats().held), (0, 1));
        let (from, question) = (peer(1), 1);
        net.step(user, Event::Fetch { from, question, id });
        assert!(net.at(user).fill(id).is_err(), "a user has no value to set");
    }
    assert!(!net.done.iter().any(|(_, it)| matches!(it, Action::Answer { .. })));
}

#[test]
fn rref_08_a_reference_that_crosses_to_a_process_makes_a_user_and_the_owner_is_told() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    net.settle();
    net.pass(id, 2, 3);
    assert_eq!(net.at(3).status(id), Some(RefStatus::Pending));
    net.deliver(3, 1);
    assert_eq!(net.at(1).stats().forks, 2);
}

/// A network in which process 2, which has lent a reference of process 1 to process 3, has died before process 3 was listed.
fn parent_has_died() -> (Network, RefId) {
    let mut net = Network::new(4);
    let id = net.keep(2, 1);
    net.settle();
    net.pass(id, 2, 3);
    for at in [1, 3, 4] {
        net.step(at, Event::Dead(peer(2)));
    }
    assert_eq!(net.did(1, &Action::Free(id)), 1);
    (net, id)
}

/// Drops two handles of process 3 and those of others. Nothing is left then.
fn is_freed_once_more(mut net: Network, id: RefId, holders: &[usize]) {
    holders.iter().for_each(|at| net.drop(*at, id));
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 2);
    for at in [1, 3, 4] {
        assert_eq!(net.at(at).stats(), RefStats::default());
    }
}

#[test]
fn a_reference_that_was_lost_is_alive_again_when_its_owner_gives_the_object_that_was_made_again() {
    let (mut net, id) = parent_has_died();
    net.settle();
    assert_eq!(net.at(3).status(id), Some(RefStatus::Lost));
    assert!(net.at(1).hold_again(id));
    net.pass(id, 1, 3);
    assert_eq!(net.at(3).status(id), Some(RefStatus::Confirmed));
    net.drop(1, id);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1, "process 3 holds it");
    is_freed_once_more(net, id, &[3, 3]);
}

#[test]
fn a_reference_that_was_lost_is_alive_again_when_another_user_passes_it() {
    let (mut net, id) = parent_has_died();
    net.settle();
    assert!(net.at(1).hold_again(id));
    net.pass(id, 1, 4);
    let call = net.pass(id, 4, 3);
    assert_eq!(net.at(3).status(id), Some(RefStatus::Pending));
    assert_eq!(net.did(3, &Action::Run { call }), 0);
    net.settle();
    assert_eq!(net.at(3).status(id), Some(RefStatus::Confirmed));
    assert_eq!(net.did(3, &Action::Run { call }), 1);
    is_freed_once_more(net, id, &[1, 3, 3, 4]);
}

#[test]
fn an_answer_that_an_object_is_gone_is_no_answer_about_a_reference_that_has_come_since() {
    let (mut net, id) = parent_has_died();
    net.deliver(3, 1);
    net.flush(1, 3);
    let gone = std::mem::take(&mut net.sent);
    assert!(net.at(1).hold_again(id));
    net.pass(id, 1, 4);
    let call = net.pass(id, 4, 3);
    net.arrive(gone);
    assert_eq!(net.at(3).status(id), Some(RefStatus::Pending));
    net.settle();
    assert_eq!(net.at(3).status(id), Some(RefStatus::Confirmed));
    assert_eq!(net.did(3, &Action::Run { call }), 1);
    assert_eq!(net.did(3, &Action::Lost(id)), 0);
    is_freed_once_more(net, id, &[1, 3, 3, 4]);
}

#[test]
fn rref_10_a_user_comes_from_the_owner_from_another_user_or_from_its_own_call() {
    let mut net = Network::new(4);
    let id = net.at(1).create();
    net.pass(id, 1, 2); // from the owner
    net.pass(id, 2, 3); // from another user
    let kept = net.keep(4, 1); // from its own call
    net.settle();
    for (at, id) in [(2, id), (3, id), (4, kept)] {
        assert_eq!(net.at(at).status(id), Some(RefStatus::Confirmed));
    }
    // No message makes a user.
    let fork = Fork::Asked(1);
    for message in [
        Message::Fork { id, number: 1 },
        Message::Forked {
            id,
            number: 1,
            is_alive: true,
        },
        Message::Accept { id, fork: 1 },
        Message::Accepted { id, fork: 1 },
        Message::Release { id, fork },
        Message::Released { id, fork },
    ] {
        let (low, messages) = (1, vec![message]);
        net.arrive(vec![(1, 4, selvedge_objects::refs::Bundle { low, messages })]);
        assert_eq!(net.at(4).status(id), None, "{message:?}");
    }
}

#[test]
fn rref_12_a_parent_is_not_released_before_the_owner_has_confirmed_the_child() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    net.settle();
    net.pass(id, 2, 3);
    net.drop(2, id);
    net.flush(2, 1);
    assert!(
        net.sent.iter().all(|it| (it.0, it.1) == (3, 1)),
        "the child is not confirmed, and has only asked: {:?}",
        net.sent
    );
    net.deliver(3, 1);
    net.deliver(1, 3);
    net.flush(2, 1);
    assert!(!net.sent.iter().any(|it| it.0 == 2), "the child has not accepted");
    net.deliver(3, 2);
    net.flush(2, 1);
    assert!(
        net.sent.iter().any(|it| (it.0, it.1) == (2, 1)),
        "now it is released"
    );
}

proptest! {
    /// Passes at random; each user's entry comes from one parcel, and the owner never becomes a user.
    #[test]
    fn rref_13_forks_form_a_tree(passes in proptest::collection::vec((1_usize..6, 1_usize..6), 0..40)) {
        let mut net = Network::new(5);
        let id = net.keep(2, 1);
        let mut parents = std::collections::BTreeMap::new();
        for (from, to) in passes.into_iter().filter(|(from, to)| from != to) {
            let is_new = to != 1 && net.at(to).status(id).is_none();
            if let Ok(parcel) = net.at(from).pass(id, peer(to)) {
                net.call(from, to, &[parcel]);
                if is_new {
                    prop_assert_eq!(parents.insert(to, from), None, "one parent");
                }
            }
        }
        net.settle();
        prop_assert_eq!(net.at(1).stats().held, 0, "forking to the owner makes no user");
        for mut at in 3..=5 {
            let mut steps = 0;
            while let Some(parent) = parents.get(&at) {
                (at, steps) = (*parent, steps + 1);
                prop_assert!(steps < 5, "a circle");
            }
        }
        prop_assert_eq!(net.at(1).stats().forks, 1 + parents.len());
    }

    /// Copies of everything that was ever said, in any order.
    #[test]
    fn rref_14_the_owner_sees_each_user_come_once_and_go_once(
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let mut net = Network::new(3);
        let id = net.keep(2, 1);
        net.settle();
        net.pass(id, 2, 3);
        net.drop(3, id);
        let (mut said, mut seen) = (Vec::new(), vec![net.at(1).stats().forks]);
        for at in order {
            net.wait();
            said.append(&mut net.sent);
            if !said.is_empty() {
                let copy = said[at.index(said.len())].clone();
                net.arrive(vec![copy]);
                seen.push(net.at(1).stats().forks);
            }
        }
        seen.dedup();
        prop_assert!([1, 2, 1].starts_with(&seen), "{seen:?}");
    }
}

#[test]
fn rref_18_the_creator_releases_only_after_the_owners_answer() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.drop(2, id);
    net.flush(2, 1);
    let is_release = |it: &Message| matches!(it, Message::Release { .. });
    let released = |net: &Network| net.sent.iter().any(|it| it.2.messages.iter().any(is_release));
    assert!(!released(&net), "dropped and not confirmed");
    net.deliver(1, 2);
    net.flush(2, 1);
    assert!(released(&net));
}

#[test]
fn rref_20_a_release_needs_the_confirmation_and_the_last_drop() {
    let mut net = Network::new(2);
    let (id, other) = (net.keep(2, 1), net.keep(2, 1));
    net.settle(); // both confirmed, both held
    assert_eq!(net.at(1).stats().forks, 2);
    net.pass(id, 2, 1); // a handle more of it at the owner
    net.drop(2, other);
    net.settle();
    assert_eq!((net.at(1).stats().forks, net.at(2).status(other)), (1, None));
    assert_eq!(net.at(2).status(id), Some(RefStatus::Confirmed));
}

#[test]
fn rref_22_a_function_at_home_has_the_object_although_its_caller_has_released_it() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.settle();
    let call = net.pass(id, 2, 1);
    net.drop(2, id);
    net.settle();
    assert_eq!(net.at(1).stats().forks, 0, "the caller has released it");
    assert_eq!(net.did(1, &Action::Run { call }), 1);
    assert_eq!(net.did(1, &Action::Free(id)), 0, "the function has it");
    net.drop(1, id);
    assert_eq!(net.did(1, &Action::Free(id)), 1);
}

#[test]
fn rref_24_the_owners_answer_starts_the_function_and_the_acceptance_together() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    net.settle();
    let call = net.pass(id, 2, 3);
    net.deliver(3, 1);
    assert_eq!(net.did(3, &Action::Run { call }), 0);
    net.deliver(1, 3);
    assert_eq!(net.did(3, &Action::Run { call }), 1);
    net.flush(3, 2);
    let is_accept = |it: &Message| matches!(it, Message::Accept { .. });
    assert!(
        net.sent
            .iter()
            .any(|it| it.1 == 2 && it.2.messages.iter().any(is_accept))
    );
    assert_eq!(net.at(2).stats().children, 1, "the parent holds it meanwhile");
}

#[test]
fn rref_25_a_call_runs_when_all_its_references_are_confirmed() {
    let mut net = Network::new(4);
    let ids = [net.keep(3, 1), net.keep(3, 2)];
    net.settle();
    let parcels = ids.map(|id| net.at(3).pass(id, peer(4)).unwrap());
    let call = net.call(3, 4, &parcels);
    net.deliver(4, 1);
    net.deliver(1, 4);
    assert_eq!(net.did(4, &Action::Run { call }), 0, "one is missing");
    net.deliver(4, 2);
    net.deliver(2, 4);
    assert_eq!(net.did(4, &Action::Run { call }), 1);
}

#[test]
fn rref_33_an_object_and_its_creators_registration_are_there_when_the_function_starts() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    assert_eq!(net.done, [(1, Action::Run { call: 1 })]);
    assert_eq!((net.at(1).stats().owned, net.at(1).stats().forks), (1, 1));
    assert_eq!(net.at(1).status(id), Some(RefStatus::Confirmed));
}

#[test]
fn rref_34_an_object_of_ones_own_takes_no_messages() {
    let mut net = Network::new(1);
    assert_eq!(
        net.at(1).keep(std::time::Duration::ZERO, peer(1)),
        Err(RefError::ToItself(peer(1)))
    );
    let id = net.at(1).create();
    net.fill(id);
    assert_eq!((net.at(1).deadline(), net.at(1).stats().held), (None, 0));
    net.drop(1, id);
    assert_eq!(net.done, [(1, Action::Free(id))]);
    assert!(net.sent.is_empty());
}

#[test]
fn rref_35_a_reference_that_comes_home_is_the_object_itself() {
    let mut net = Network::new(3);
    let id = net.at(1).create();
    net.pass(id, 1, 2);
    net.pass(id, 2, 3);
    net.pass(id, 3, 1);
    net.settle();
    let stats = net.at(1).stats();
    assert_eq!((stats.owned, stats.held, stats.forks), (1, 0, 2));
}

#[test]
fn rref_39_figures_tell_everything_that_is_held_and_waited_for() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    net.pass(id, 2, 3);
    let stats: Vec<RefStats> = (1..=3).map(|at| net.at(at).stats()).collect();
    assert_eq!((stats[0].owned, stats[0].forks, stats[0].waiting), (1, 1, 1));
    assert_eq!((stats[1].held, stats[1].pending, stats[1].children), (1, 1, 1));
    assert_eq!((stats[2].held, stats[2].pending, stats[2].calls), (1, 1, 1));
    assert_eq!((stats[1].questions, stats[2].questions), (1, 1));
    net.settle();
    let quiet = |it: &Refs| it.stats().questions + it.stats().pending + it.stats().children;
    assert!((1..=3).all(|at| quiet(net.at(at)) == 0));
}

/// The defect of Julia's two messages without answers: a removal that overtakes the addition leaves an entry for ever.
#[test]
fn jgc_09_a_removal_never_overtakes_its_addition() {
    let mut net = Network::new(3);
    let id: RefId = net.keep(2, 1);
    net.settle();
    net.pass(id, 2, 3);
    net.drop(3, id);
    net.drop(2, id);
    net.flush(3, 1);
    let addition = std::mem::take(&mut net.sent);
    (0..3).for_each(|_| net.wait()); // the question is repeated, and everything arrives but the first copy
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1);
    net.arrive(addition); // and then the first copy
    net.settle();
    (1..=3).for_each(|at| assert_eq!(net.at(at).stats(), RefStats::default()));
}
