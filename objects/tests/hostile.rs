//! One process sends anything that can be written down; the others lose nothing by it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::refs::{
    Action, Bundle, Event, Fork, Message, Parcel, RefError, RefId, RefSettings, RefStatus, Refs,
};

const NOW: Duration = Duration::ZERO;

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

fn id() -> impl Strategy<Value = RefId> {
    (1_u32..4, 1_u32..4, 0_u64..4).prop_map(|(owner, creator, number)| RefId {
        owner: peer(owner),
        creator: peer(creator),
        number,
    })
}

fn fork() -> impl Strategy<Value = Fork> {
    prop_oneof![(0_u64..4).prop_map(Fork::Asked), (0_u64..4).prop_map(Fork::Given)]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (id(), 0_u64..4).prop_map(|(id, number)| Message::Fork { id, number }),
        (id(), 0_u64..4, any::<bool>()).prop_map(|(id, number, is_alive)| Message::Forked {
            id,
            number,
            is_alive
        }),
        (id(), 0_u64..4).prop_map(|(id, fork)| Message::Accept { id, fork }),
        (id(), 0_u64..4).prop_map(|(id, fork)| Message::Accepted { id, fork }),
        (id(), fork()).prop_map(|(id, fork)| Message::Release { id, fork }),
        (id(), fork()).prop_map(|(id, fork)| Message::Released { id, fork }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let parcel = prop_oneof![
        id().prop_map(|id| Parcel::Keep { id }),
        (id(), 0_u64..4).prop_map(|(id, fork)| Parcel::Given { id, fork }),
        (id(), 0_u64..4).prop_map(|(id, fork)| Parcel::Lent { id, fork }),
    ];
    let from = peer(3);
    prop_oneof![
        (0_u64..9, proptest::collection::vec(parcel, 0..3)).prop_map(move |(call, parcels)| Event::Arrived {
            from,
            call,
            parcels
        }),
        (0_u64..9, proptest::collection::vec(message(), 0..4)).prop_map(move |(low, messages)| {
            let bundle = Bundle { low, messages };
            Event::Heard { from, bundle }
        }),
        (id(), 0_u64..9).prop_map(move |(id, question)| Event::Fetch { from, question, id }),
    ]
}

/// An owner, process 1, with an object of which only process 2 holds a reference.
fn listed() -> (Refs, Refs, RefId) {
    let (mut owner, mut user) = (
        Refs::new(peer(1), RefSettings::default()),
        Refs::new(peer(2), RefSettings::default()),
    );
    let id = owner.create();
    let parcels = vec![owner.pass(id, peer(2)).unwrap()];
    let from = peer(1);
    user.step(
        NOW,
        Event::Arrived {
            from,
            call: 1,
            parcels,
        },
    );
    owner.step(NOW, Event::Dropped(id));
    (owner, user, id)
}

proptest! {
    /// REF-8.
    #[test]
    fn no_process_frees_what_another_one_holds(events in proptest::collection::vec(event(), 0..30)) {
        let (mut owner, mut user, id) = listed();
        for event in events {
            let actions = owner.step(NOW, event.clone());
            prop_assert!(!actions.contains(&Action::Free(id)), "{event:?}");
            let actions = user.step(NOW, event.clone());
            prop_assert!(!actions.contains(&Action::Lost(id)), "{event:?}");
        }
        prop_assert_eq!(owner.status(id), Some(RefStatus::Confirmed));
        prop_assert_eq!(user.status(id), Some(RefStatus::Confirmed));
    }

    /// REF-7: after its death nothing of the process is left, and nothing of it is heard.
    #[test]
    fn a_dead_process_leaves_nothing(events in proptest::collection::vec(event(), 0..30)) {
        let (mut owner, _, id) = listed();
        let before = owner.stats();
        let is_call = |event: &Event| matches!(event, Event::Arrived { .. });
        for event in events.iter().filter(|it| !is_call(it)) {
            owner.step(NOW, event.clone());
        }
        owner.step(NOW, Event::Dead(peer(3)));
        prop_assert_eq!(owner.stats(), before);
        for event in events {
            prop_assert_eq!(owner.step(NOW, event), []);
        }
        prop_assert_eq!(owner.ids().collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn a_bundle_survives_its_encoding(messages in proptest::collection::vec(message(), 0..9), low in any::<u64>()) {
        let bundle = Bundle { low, messages };
        let bytes = postcard::to_stdvec(&bundle).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Bundle>(&bytes).unwrap(), bundle);
    }
}

#[test]
fn jrem_14_a_value_is_set_once() {
    let mut owner = Refs::new(peer(1), RefSettings::default());
    let id = owner.create();
    let (from, to) = (peer(2), peer(2));
    assert_eq!(
        owner.step(
            NOW,
            Event::Fetch {
                from,
                question: 5,
                id
            }
        ),
        []
    );
    assert_eq!(owner.fill(id).unwrap(), [Action::Answer { to, question: 5, id }]);
    assert_eq!(owner.fill(id), Err(RefError::AlreadySet(id)));
    let again = owner.step(
        NOW,
        Event::Fetch {
            from,
            question: 6,
            id,
        },
    );
    assert_eq!(again, [Action::Answer { to, question: 6, id }]);
    assert_eq!(owner.step(NOW, Event::Dropped(id)), [Action::Free(id)]);
    assert_eq!(owner.fill(id), Err(RefError::Freed(id)));
}

#[test]
fn rref_36_what_is_dropped_or_lost_cannot_be_passed() {
    let (mut owner, mut user, id) = listed();
    assert_eq!(
        owner.pass(id, peer(3)),
        Err(RefError::NotHeld(id)),
        "its handle was dropped"
    );
    assert_eq!(user.pass(id, peer(2)), Err(RefError::ToItself(peer(2))));
    user.step(NOW, Event::Dead(peer(3)));
    assert_eq!(user.pass(id, peer(3)), Err(RefError::Dead(peer(3))));
    assert_eq!(user.step(NOW, Event::Dead(peer(1))), [Action::Lost(id)]);
    assert_eq!(user.pass(id, peer(4)), Err(RefError::Lost(id)));
    assert_eq!(user.step(NOW, Event::Dropped(id)), []);
    assert_eq!(user.ids().count(), 0);
}

#[test]
fn rref_16_a_user_that_comes_and_goes_before_the_object_frees_nothing() {
    let mut owner = Refs::new(peer(1), RefSettings::default());
    let mut creator = Refs::new(peer(2), RefSettings::default());
    let keep = creator.keep(NOW, peer(1)).unwrap();
    let (id, from) = (keep.id(), peer(3));
    let bundle = |low, message| Bundle {
        low,
        messages: vec![message],
    };
    let fork = bundle(1, Message::Fork { id, number: 1 });
    owner.step(NOW, Event::Heard { from, bundle: fork });
    assert_eq!(owner.stats().forks, 1);
    let release = bundle(
        2,
        Message::Release {
            id,
            fork: Fork::Asked(1),
        },
    );
    assert_eq!(
        owner.step(
            NOW,
            Event::Heard {
                from,
                bundle: release
            }
        ),
        []
    );
    assert_eq!(owner.stats().owned, 0, "it never existed");
    let (from, call, parcels) = (peer(2), 7, vec![keep]);
    let run = owner.step(NOW, Event::Arrived { from, call, parcels });
    assert_eq!(run, [Action::Run { call }]);
    assert_eq!((owner.stats().owned, owner.stats().forks), (1, 1));
}
