//! What the references of a process do as time passes: repetitions, creations that are late, shutdowns.
#![allow(missing_docs, clippy::unwrap_used)]

mod network;

use std::time::Duration;

use network::{Network, peer};
use selvedge_objects::refs::{
    Action, Event, Fork, Leak, Message, RefError, RefSettings, RefStats, RefStatus,
};

#[test]
fn rref_11_the_owner_is_told_of_every_release_however_often_that_is_lost() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.settle();
    net.drop(2, id);
    for _ in 0..20 {
        net.wait();
        net.sent.clear(); // lost
    }
    assert_eq!(net.at(2).status(id), None);
    assert_eq!(net.at(2).stats().questions, 1);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1);
}

#[test]
fn rref_26_questions_are_repeated_and_calls_run_once() {
    let mut net = Network::new(3);
    let id = net.keep(2, 1);
    let call = net.pass(id, 2, 3);
    let mut said = Vec::new();
    for _ in 0..10 {
        net.wait();
        said.append(&mut net.sent);
        net.arrive(said.clone()); // each copy once more
    }
    net.settle();
    assert_eq!(net.did(3, &Action::Run { call }), 1);
    assert_eq!(
        net.done
            .iter()
            .filter(|(_, it)| matches!(it, Action::Run { .. }))
            .count(),
        2
    );
}

#[test]
fn rref_28_pauses_between_repetitions_grow_and_a_death_ends_them() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.sent.clear();
    let mut times = Vec::new();
    while net.now < Duration::from_secs(30) {
        net.wait();
        if net.sent.drain(..).any(|it| it.0 == 2) {
            times.push(net.now);
        }
    }
    let pauses: Vec<_> = times.windows(2).map(|it| it[1] - it[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&Duration::from_secs(5)));
    net.step(2, Event::Dead(peer(1)));
    assert_eq!(net.did(2, &Action::Lost(id)), 1);
    assert_eq!((net.at(2).deadline(), net.at(2).stats().questions), (None, 0));
    assert_eq!(net.at(2).check(id), Err(RefError::Lost(id)));
}

/// The table treats a function's error like its value.
#[test]
fn rref_29_the_content_is_answered_every_time_and_the_reference_counts_as_before() {
    let mut net = Network::new(2);
    let id = net.keep(2, 1);
    net.settle();
    net.fill(id);
    for question in 1..=3 {
        let (from, to) = (peer(2), peer(2));
        net.step(1, Event::Fetch { from, question, id });
        assert_eq!(net.did(1, &Action::Answer { to, question, id }), 1);
    }
    net.drop(2, id);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(id)), 1);
}

#[test]
fn rref_30_a_creation_that_is_not_confirmed_in_time_is_an_error_until_it_is() {
    let mut net = Network::new(3);
    let parcel = net.at(2).keep(Duration::ZERO, peer(1)).unwrap();
    let id = parcel.id();
    assert!(net.at(2).pass(id, peer(3)).is_ok(), "in time");
    while net.done.is_empty() {
        net.wait();
        net.sent.clear();
    }
    assert_eq!(
        (net.now, net.done.as_slice()),
        (Duration::from_secs(60), &[(2, Action::TimedOut(id))][..])
    );
    assert_eq!(net.at(2).status(id), Some(RefStatus::TimedOut));
    let error = net.at(2).check(id).unwrap_err();
    assert_eq!(net.at(2).pass(id, peer(3)), Err(error));
    assert_eq!(error, RefError::CreateTimedOut(id));
    assert!(
        error
            .to_string()
            .contains("timed out, and the object may not exist"),
        "{error}"
    );
    net.call(2, 1, &[parcel]); // late
    net.deliver(1, 2);
    assert_eq!(net.did(2, &Action::Confirmed(id)), 1);
    assert_eq!(net.at(2).check(id), Ok(()));
}

#[test]
fn rref_30_a_reference_that_is_dropped_while_its_creation_is_late_leaves_nothing() {
    let mut net = Network::new(2);
    let parcel = net.at(2).keep(Duration::ZERO, peer(1)).unwrap();
    while net.done.is_empty() {
        net.wait();
        net.sent.clear();
    }
    net.drop(2, parcel.id());
    net.call(2, 1, &[parcel]);
    net.settle();
    assert_eq!(net.did(1, &Action::Free(parcel.id())), 1);
    assert_eq!(net.at(2).stats(), RefStats::default());
}

#[test]
fn rref_37_a_shutdown_lets_go_of_everything_and_waits_for_the_others() {
    let mut net = Network::new(3);
    let deadline = Duration::from_secs(30);
    let (held, own) = (net.keep(1, 2), net.at(1).create());
    let unused = net.at(1).create();
    net.pass(own, 1, 3);
    net.pass(held, 1, 3);
    net.step(1, Event::End { deadline });
    assert_eq!(net.did(1, &Action::Free(unused)), 1, "nobody else has it");
    net.settle();
    assert_eq!(
        net.at(1).status(held),
        None,
        "released after process 3 had accepted"
    );
    assert!(
        net.did(1, &Action::Ended { leaks: vec![] }) == 0,
        "process 3 has {own}"
    );
    assert_eq!(
        net.at(1).keep(Duration::ZERO, peer(2)),
        Err(RefError::Ending(peer(1)))
    );
    net.drop(3, own);
    net.settle();
    assert_eq!(net.did(1, &Action::Ended { leaks: vec![] }), 1);
    assert!(net.now < deadline);
    assert_eq!(net.at(1).stats(), RefStats::default());
}

#[test]
fn rref_37_a_shutdown_ends_at_its_deadline_and_names_what_is_left() {
    let mut net = Network::new(4);
    let own = net.at(1).create();
    net.pass(own, 1, 3);
    let silent = net.at(1).keep(Duration::ZERO, peer(4)).unwrap().id(); // process 4 never hears of it
    let deadline = Duration::from_secs(30);
    net.step(1, Event::End { deadline });
    let fork = Fork::Given(1);
    let leaks = vec![
        Leak::Listed {
            id: own,
            user: peer(3),
            fork,
        },
        Leak::Unconfirmed(silent),
        Leak::Unanswered {
            peer: peer(4),
            questions: 1,
        },
    ];
    while net.now < deadline {
        net.wait();
        net.sent.clear();
    }
    assert_eq!(
        net.did(1, &Action::Ended { leaks: leaks.clone() }),
        1,
        "{:?}",
        net.done
    );
    let named = leaks.iter().map(|leak| (leak.id(), leak.peer()));
    assert!(named.eq([(Some(own), peer(3)), (Some(silent), peer(4)), (None, peer(4))]));
    let text = leaks[0].to_string();
    assert!(text.starts_with("process 3 holds reference 1 of"), "{text}");
}

#[test]
fn rref_37_a_shutdown_gives_nobody_a_value_and_waits_for_no_object_that_is_made_meanwhile() {
    let mut net = Network::new(3);
    let own = net.at(1).create();
    net.pass(own, 1, 3);
    let fetch = |question| Event::Fetch {
        from: peer(3),
        question,
        id: own,
    };
    net.step(1, fetch(1));
    let deadline = Duration::from_secs(30);
    net.step(1, Event::End { deadline });
    net.step(1, fetch(2));
    for question in [1, 2] {
        let refused = Action::Refuse {
            to: peer(3),
            question,
            id: own,
        };
        assert_eq!(net.did(1, &refused), 1, "process 3 learns that it waits in vain");
    }
    let late = net.at(1).create();
    net.drop(3, own);
    net.settle();
    assert_eq!(net.did(1, &Action::Ended { leaks: vec![] }), 1);
    assert_eq!(net.at(1).stats().owned, 1);
    net.drop(1, late);
    assert_eq!(net.at(1).stats(), RefStats::default());
}

#[test]
fn rref_37_calls_that_arrive_during_a_shutdown_are_refused_and_undone() {
    let mut net = Network::new(3);
    let (id, other) = (net.keep(2, 3), net.keep(2, 3));
    net.settle();
    let waiting = net.pass(id, 2, 1); // waits for the owner
    let deadline = Duration::from_secs(30);
    net.step(1, Event::End { deadline });
    assert_eq!(net.did(1, &Action::Abandon { call: waiting }), 1);
    let call = net.pass(other, 2, 1);
    let error = RefError::Ending(peer(1));
    assert_eq!(net.did(1, &Action::RefuseCall { call, error }), 1);
    net.settle();
    assert_eq!(net.did(1, &Action::Run { call: waiting }), 0);
    assert_eq!(net.did(1, &Action::Ended { leaks: vec![] }), 1);
    assert_eq!((net.at(2).stats().children, net.at(2).stats().held), (0, 2));
    // What process 1 had asked for it has released.
    assert_eq!(net.at(3).stats().forks, 2);
}

#[test]
fn every_question_that_is_due_is_repeated_once() {
    let mut net = Network::new(2);
    for number in 0..200 {
        net.keep(2, 1);
        net.now = Duration::from_millis(number % 50);
    }
    net.sent.clear();
    net.now = Duration::from_secs(10);
    net.step(2, Event::Tick);
    let asked = net.sent.iter().flat_map(|it| &it.2.messages);
    let ids: std::collections::BTreeSet<_> = asked
        .clone()
        .filter_map(|it| match it {
            Message::Fork { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!((asked.count(), ids.len()), (200, 200));
    assert_eq!(net.sent.len(), 4, "in bundles of 64");
    net.sent.clear();
    net.step(2, Event::Tick);
    assert!(net.sent.is_empty(), "{:?}", net.sent);
}

#[test]
fn a_message_waits_for_others_before_it_is_sent() {
    let mut net = Network::new(2);
    let ids: Vec<_> = (0..5).map(|_| net.keep(2, 1)).collect();
    net.settle();
    ids.iter().for_each(|id| net.drop(2, *id));
    assert!(net.sent.is_empty());
    net.wait();
    let [(2, 1, bundle)] = net.sent.as_slice() else {
        panic!("{:?}", net.sent);
    };
    assert!(
        bundle
            .messages
            .iter()
            .all(|it| matches!(it, Message::Release { .. }))
    );
    assert_eq!(bundle.messages.len(), 5);
}

#[test]
fn a_call_waits_for_its_fresh_references_without_the_pause_for_bundles() {
    let mut net = Network::new(3);
    let kept = [(); 3].map(|()| net.keep(2, 1));
    net.settle();
    net.now += Duration::from_millis(5);

    // Two references of one call share a bundle to their owner.
    let parcels = [kept[0], kept[1]].map(|id| net.at(2).pass(id, peer(3)).unwrap());
    let first = net.call(2, 3, &parcels);
    assert_eq!(net.sent.len(), 1, "{:?}", net.sent);
    net.deliver_all();
    assert_eq!(net.did(3, &Action::Run { call: first }), 1);

    // The next one to the same process waits for the pause between bundles that calls wait for, not for the other one.
    let second = net.pass(kept[2], 2, 3);
    assert_eq!(net.sent, []);
    let settings = RefSettings::default();
    assert_eq!(net.at(3).deadline(), Some(net.now + settings.prompt_after));
    for _ in 0..2 {
        net.wait(); // first the question, then the answer
        net.deliver_all();
    }
    assert_eq!(net.did(3, &Action::Run { call: second }), 1);

    // No call waits for the acknowledgement of the fork.
    let owed = net.at(3).deadline().unwrap();
    assert!(owed > net.now + settings.prompt_after, "{owed:?}");
}
