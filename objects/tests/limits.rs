//! No process can fill the tables of another one, and nothing is lost at the limit.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_objects::refs::{
    Action, Bundle, Event, Fork, Message, Parcel, RefError, RefId, RefSettings, RefStats, Refs,
};

const NOW: Duration = Duration::ZERO;
const LIMIT: usize = 20;

fn peer(number: u32) -> Peer {
    Peer {
        process: ProcessId::new(number).unwrap(),
        incarnation: Incarnation(1),
    }
}

fn narrow(number: u32) -> Refs {
    let entries_max = LIMIT;
    Refs::new(
        peer(number),
        RefSettings {
            entries_max,
            ..RefSettings::default()
        },
    )
}

/// Anything that process 3 may send to process 1, with names of processes that exist and of some that do not.
fn event(at: u64, kind: u8, owner: u32, creator: u32) -> Event {
    let from = peer(3);
    let id = RefId {
        owner: peer(1 + owner % 5),
        creator: peer(1 + creator % 5),
        number: at,
    };
    let messages = |message| Event::Heard {
        from,
        bundle: Bundle {
            low: 0,
            messages: vec![message],
        },
    };
    let arrived = |parcel| Event::Arrived {
        from,
        call: at,
        parcels: vec![parcel],
    };
    match kind % 7 {
        0 => messages(Message::Fork { id, number: at }),
        1 => messages(Message::Release {
            id,
            fork: Fork::Asked(at),
        }),
        2 => messages(Message::Accept { id, fork: at }),
        3 => Event::Fetch {
            from,
            question: at,
            id,
        },
        4 => arrived(Parcel::Keep { id }),
        5 => arrived(Parcel::Given { id, fork: at }),
        _ => arrived(Parcel::Lent { id, fork: at }),
    }
}

fn entries(stats: &RefStats) -> usize {
    stats.owned + stats.forks + stats.held + stats.questions + stats.calls
}

proptest! {
    /// REF-9, and REF-7: the tables are bounded, and the death of the sender empties them.
    #[test]
    fn a_process_that_sends_anything_fills_no_table(
        kinds in proptest::collection::vec((any::<u8>(), 0_u32..5, 0_u32..5), 0..600),
    ) {
        let (mut refs, mut calls) = (narrow(1), std::collections::BTreeMap::new());
        for (at, (kind, owner, creator)) in kinds.into_iter().enumerate() {
            let event = event(at as u64 + 1, kind, owner, creator);
            if let Event::Arrived { call, parcels, .. } = &event {
                calls.insert(*call, parcels.clone());
            }
            for action in refs.step(NOW, event) {
                if let Action::RefuseCall { call, .. } = action {
                    calls.remove(&call);
                }
            }
            // Questions to processes that do not exist are charged to whoever lent the reference, and counted beside that.
            prop_assert!(refs.load(peer(3)) <= 2 * LIMIT, "REF-9: {}", refs.load(peer(3)));
            prop_assert!(entries(&refs.stats()) <= 12 * LIMIT, "REF-9: {:?}", refs.stats());
        }
        refs.step(NOW, Event::Dead(peer(3)));
        // No call of the dead waits; its parcels are dropped, whether it ran or not.
        prop_assert_eq!(refs.stats().calls, 0);
        for parcel in calls.into_values().flatten() {
            if !matches!(parcel, Parcel::Keep { .. }) {
                refs.step(NOW, Event::Discarded(parcel.id()));
            }
        }
        (2..6).for_each(|unknown| { refs.step(NOW, Event::Unknown(peer(unknown))); });
        prop_assert_eq!(refs.stats(), RefStats::default());
    }
}

#[test]
fn keeping_and_passing_beyond_the_limit_is_an_error_that_names_the_process() {
    let mut refs = narrow(1);
    let error = loop {
        if let Err(error) = refs.keep(NOW, peer(2)) {
            break error;
        }
    };
    let (entries, limit) = (LIMIT, LIMIT);
    assert_eq!(
        error,
        RefError::TooMany {
            peer: peer(2),
            entries,
            limit
        }
    );
    assert!(
        error.to_string().starts_with("process 2 has 20 registrations"),
        "{error}"
    );
    let own = refs.create();
    assert!(matches!(refs.pass(own, peer(2)), Err(RefError::TooMany { .. })));
    assert!(refs.pass(own, peer(3)).is_ok(), "others have room");
}

#[test]
fn a_refused_call_gives_its_parcels_back() {
    let (mut owner, mut user) = (narrow(1), narrow(2));
    let kept: Vec<_> = (0..LIMIT / 2).map(|_| user.keep(NOW, peer(1)).unwrap()).collect();
    let parcels: Vec<_> = kept.iter().cycle().take(LIMIT).copied().collect();
    let (from, call) = (peer(2), 1);
    let actions = owner.step(NOW, Event::Arrived { from, call, parcels });
    assert!(
        actions
            .iter()
            .any(|it| matches!(it, Action::RefuseCall { call: 1, .. }))
    );
    let mut lost = 0;
    for action in owner.step(NOW, Event::Flush(peer(2))) {
        if let Action::Send { bundle, .. } = action {
            let told = user.step(
                NOW,
                Event::Heard {
                    from: peer(1),
                    bundle,
                },
            );
            lost += told.iter().filter(|it| matches!(it, Action::Lost(_))).count();
        }
    }
    assert_eq!((lost, owner.stats().owned), (kept.len(), 0));
}

#[test]
fn a_fetch_beyond_the_limit_is_refused_with_the_figures() {
    let mut owner = narrow(1);
    let id = owner.create();
    let (from, to) = (peer(2), peer(2));
    for question in 0..LIMIT as u64 {
        assert_eq!(owner.step(NOW, Event::Fetch { from, question, id }), []);
    }
    let (entries, limit, question) = (LIMIT, LIMIT, 99);
    let error = RefError::TooMany {
        peer: from,
        entries,
        limit,
    };
    let refused = [Action::RefuseFetch { to, question, error }];
    assert_eq!(owner.step(NOW, Event::Fetch { from, question, id }), refused);
    let from = peer(1);
    assert_eq!(
        owner.step(NOW, Event::Fetch { from, question, id }),
        [],
        "its own"
    );
    assert_eq!(owner.fill(id).map(|it| it.len()), Ok(LIMIT + 1));
    assert_eq!(owner.load(to), 0);
}

#[test]
fn a_question_beyond_the_limit_is_answered_when_there_is_room() {
    let mut owner = narrow(1);
    let ids: Vec<_> = (0..=LIMIT).map(|_| owner.create()).collect();
    let ask = |owner: &mut Refs, at: usize| {
        let message = Message::Fork {
            id: ids[at],
            number: at as u64 + 1,
        };
        let (low, messages) = (1, vec![message]);
        let from = peer(2);
        owner.step(
            NOW,
            Event::Heard {
                from,
                bundle: Bundle { low, messages },
            },
        )
    };
    (0..LIMIT).for_each(|at| assert_eq!(ask(&mut owner, at), []));
    let overloaded = |it: &Action| matches!(it, Action::Overloaded { peer: it, .. } if *it == peer(2));
    assert!(ask(&mut owner, LIMIT).iter().any(overloaded));
    assert_eq!(owner.stats().forks, LIMIT);
    let (from, low) = (peer(2), LIMIT as u64 + 1);
    let (id, fork) = (ids[0], Fork::Asked(1));
    let messages = vec![Message::Release { id, fork }];
    owner.step(
        NOW,
        Event::Heard {
            from,
            bundle: Bundle { low, messages },
        },
    );
    assert_eq!(ask(&mut owner, LIMIT), [], "repeated, and listed");
    assert_eq!(owner.stats().forks, LIMIT);
}
