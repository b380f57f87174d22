//! Notices about an object that come late. In Ray a notice that an object was spilled could come after the object had got another
//! place; its owner then took the spilled copy, which was gone with its node, for the object's place, forgot the good one, and did not
//! rebuild the value (ray#65660).

use selvedge_cluster::peer::{Peer, ProcessId};

use super::*;

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

/// A store of one leaf, with an object in it.
fn full_store() -> (Store, StoreId) {
    let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
    let (by, request, bytes) = (peer(1), 1, LEAF_BYTES);
    let lent = store.step(StoreEvent::Reserve { request, by, bytes });
    let [StoreAction::Lend { object, .. }] = lent[..] else {
        panic!("{lent:?}")
    };
    store.step(StoreEvent::Seal { by, object });
    (store, object)
}

/// Asks for memory, for which the object has to leave. Returns the attempt.
fn leave(store: &mut Store, request: u64) -> u64 {
    let (by, bytes) = (peer(1), LEAF_BYTES);
    let asked = store.step(StoreEvent::Reserve { request, by, bytes });
    let [StoreAction::Spill { attempt, .. }] = asked[..] else {
        panic!("{asked:?}")
    };
    attempt
}

fn spilled(object: StoreId, attempt: u64, is_good: bool) -> StoreEvent {
    let bad = || StoreError::Spill {
        folder: "/full".to_owned(),
        why: "no space".to_owned(),
    };
    let result = is_good.then_some(()).ok_or_else(bad);
    StoreEvent::Spilled {
        object,
        attempt,
        result,
    }
}

fn restored(object: StoreId, attempt: u64, is_good: bool) -> StoreEvent {
    let result = is_good.then_some(()).ok_or(StoreError::Gone);
    StoreEvent::Restored {
        object,
        attempt,
        result,
    }
}

/// Notices of attempts that are over change nothing, whatever they say.
fn stale_notices_change_nothing(store: &mut Store, object: StoreId, attempts: &[u64]) {
    let before = store.report();
    for attempt in attempts {
        for is_good in [true, false] {
            assert_eq!(store.step(spilled(object, *attempt, is_good)), []);
            assert_eq!(store.step(restored(object, *attempt, is_good)), []);
        }
    }
    assert_eq!(store.report(), before);
}

#[test]
fn ray_65660_a_late_notice_of_a_spill_moves_no_object_and_gives_no_memory_back() {
    let (mut store, object) = full_store();
    let first = leave(&mut store, 2);
    let refused = store.step(spilled(object, first, false));
    assert!(
        matches!(
            refused[..],
            [StoreAction::Refuse { request: 2, .. }, StoreAction::Discard(_)]
        ),
        "{refused:?}"
    );
    stale_notices_change_nothing(&mut store, object, &[first]);

    // On its way out once more, and opened meanwhile: the reader's memory stays, whatever is said of the first attempt.
    let second = leave(&mut store, 3);
    assert_ne!(first, second);
    stale_notices_change_nothing(&mut store, object, &[first]);
    let (by, request) = (peer(2), 4);
    let granted = store.step(StoreEvent::Open { request, by, object });
    let [StoreAction::Grant { grant, extent, .. }] = granted[..] else {
        panic!("{granted:?}")
    };
    stale_notices_change_nothing(&mut store, object, &[first]);
    let full = store.step(spilled(object, second, true));
    assert!(
        matches!(
            full[..],
            [StoreAction::Refuse {
                request: 3,
                error: StoreError::Full(_)
            }]
        ),
        "{full:?}"
    );
    assert_eq!(store.report().objects[0].place, ObjectPlace::Memory);
    stale_notices_change_nothing(&mut store, object, &[first, second]);

    // In the file alone: it comes back from there, and only the notice of that attempt brings it.
    store.step(StoreEvent::Close { by, object, grant });
    let (by, bytes) = (peer(1), LEAF_BYTES);
    let lent = store.step(StoreEvent::Reserve {
        request: 5,
        by,
        bytes,
    });
    let [StoreAction::Lend { object: other, .. }] = lent[..] else {
        panic!("{lent:?}")
    };
    assert_eq!(store.report().objects[0].place, ObjectPlace::File);
    stale_notices_change_nothing(&mut store, object, &[first, second]);
    assert_eq!(
        store.step(StoreEvent::Open {
            request: 6,
            by,
            object
        }),
        []
    );
    let restore = store.step(StoreEvent::Abort { by, object: other });
    let Some(StoreAction::Restore {
        attempt: third, to, ..
    }) = restore
        .iter()
        .find(|it| matches!(it, StoreAction::Restore { .. }))
    else {
        panic!("{restore:?}")
    };
    assert_eq!(to.offset, extent.offset);
    stale_notices_change_nothing(&mut store, object, &[first, second]);
    let granted = store.step(restored(object, *third, true));
    assert!(
        matches!(granted[..], [StoreAction::Grant { request: 6, .. }]),
        "{granted:?}"
    );
    stale_notices_change_nothing(&mut store, object, &[first, second, *third]);
}
