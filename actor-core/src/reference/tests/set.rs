//! Values that are set once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use selvedge_cluster::frame::Class;
use selvedge_objects::refs::Parcel;

use super::super::content::ObjectValue;
use super::super::fetch::{FETCHES, FetchMessage};
use super::super::letters::ReferenceService;
use super::super::{FetchError, Ref, SetError};
use super::network::{TestMember, TestNetwork};
use super::{Album, assert_empty, fetched, three};
use crate::current::as_async;
use crate::hub::post::Letter;

/// Sets a value, and lets the network run.
fn set<T: selvedge_channels::Wire>(
    network: &TestNetwork,
    reference: &Ref<T>,
    value: T,
) -> Result<(), SetError> {
    let reference = reference.clone();
    let waiting = std::thread::spawn(move || reference.set(value));
    network.run_until(|| waiting.is_finished());
    waiting.join().unwrap()
}

fn unset<T>(at: &TestMember, owner: &TestMember) -> Ref<T> {
    Ref::of(at.table.unset(owner.peer).unwrap())
}

fn given<T>(network: &TestNetwork, from: &TestMember, reference: &Ref<T>, to: &TestMember) -> Ref<T> {
    from.give(reference, to);
    network.settle();
    to.taken().pop().unwrap()
}

#[test]
fn jrem_14_the_first_of_several_processes_sets_the_value() {
    let (network, a, b, c) = three();
    let x: Ref<String> = unset(&a, &b);
    let (at_b, at_c) = (given(&network, &a, &x, &b), given(&network, &a, &x, &c));
    let waiting = {
        let x = x.clone();
        std::thread::spawn(move || x.fetch_timeout(Duration::from_secs(60)))
    };
    set(&network, &at_c, "first".to_owned()).unwrap();
    network.run_until(|| waiting.is_finished());
    assert_eq!(*waiting.join().unwrap().unwrap(), "first");
    for late in [&at_b, &at_c, &x] {
        let error = set(&network, late, "late".to_owned()).unwrap_err();
        assert!(matches!(error, SetError::AlreadySet { .. }), "{error}");
        assert!(error.to_string().contains("only once"), "{error}");
        assert_eq!(*fetched(&network, late).unwrap(), "first");
    }
    // At its owner the value is one `Arc`.
    assert!(Arc::ptr_eq(&at_b.fetch().unwrap(), &at_b.local().unwrap()));
    drop((x, at_b, at_c));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn an_owner_sets_its_own_value_and_a_function_that_comes_later_sets_nothing() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let at_b = given(&network, &a, &x, &b);
    at_b.set(7).unwrap();
    assert!(matches!(at_b.set(8), Err(SetError::AlreadySet { .. })));
    assert!(b.table.fill(x.id(), Ok(ObjectValue::wire(9_u64))).is_err());
    assert_eq!(
        (*fetched(&network, &x).unwrap(), at_b.local().as_deref()),
        (7, Some(&7))
    );
    drop((x, at_b));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_value_that_is_set_takes_its_references_along() {
    let (network, a, b, c) = three();
    let x: Ref<Album> = unset(&a, &b);
    let pages = vec![a.put(1_u64), a.put(2)];
    let title = "summer".to_owned();
    set(&network, &x, Album { title, pages }).unwrap();
    let (at_b, at_c) = (given(&network, &a, &x, &b), given(&network, &a, &x, &c));
    network.settle();
    assert_eq!(a.table.stats().owned, 2, "the value at its owner holds them");
    let asked = at_c.clone();
    let waiting = std::thread::spawn(move || asked.fetch());
    network.run_until(|| network.questions_at(&c) == 1);
    // The references in the answer are registered with their owner, which takes time.
    network.settle();
    let at_c_read = waiting.join().unwrap().unwrap();
    assert!(at_b.local().is_none(), "not decoded yet");
    for read in [at_c_read, at_b.fetch().unwrap()] {
        assert_eq!(read.title, "summer");
        let pages: Vec<u64> = read
            .pages
            .iter()
            .map(|page| *fetched(&network, page).unwrap())
            .collect();
        assert_eq!(pages, [1, 2]);
    }
    assert!(at_b.local().is_some());
    drop((x, at_b, at_c));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn a_value_of_another_type_and_a_lost_owner_are_errors() {
    let (network, a, b, _) = three();
    let x: Ref<Vec<u64>> = unset(&a, &b);
    network.settle();
    // What a process of another build may send.
    let parcels = a.table.pass(&[Arc::clone(x.handle())], b.peer).unwrap();
    let question = 2;
    let message = FetchMessage::Set { question, parcels };
    let letter = Letter::new(FETCHES, Class::Ordered, &message, Bytes::from_static(&[200, 1]));
    ReferenceService(&b.table).received(a.peer, letter);
    network.settle();
    let at_b = given(&network, &a, &x, &b);
    for reference in [&at_b, &x] {
        assert!(fetched(&network, reference).is_err());
    }
    drop(at_b);
    network.kill(&b);
    assert!(matches!(x.set(Vec::new()), Err(SetError::NoAnswer(_))));
    drop(x);
    network.settle();
    assert_empty(&[&a]);
}

#[test]
fn a_value_that_overtakes_the_creation_of_its_object_is_set_once_the_object_exists() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    let creation = network.take_last();
    let setting = {
        let x = x.clone();
        std::thread::spawn(move || x.set(7))
    };
    network.run_until(|| network.questions_at(&b) == 1);
    network.settle();
    assert!(
        !setting.is_finished(),
        "the call that creates the object is on its way"
    );
    network.put_back(creation);
    network.run_until(|| setting.is_finished());
    setting.join().unwrap().unwrap();
    assert_eq!(*fetched(&network, &x).unwrap(), 7);
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_value_is_set_only_by_way_of_a_reference() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = unset(&a, &b);
    network.settle();
    for parcels in [vec![], vec![Parcel::Keep { id: x.id() }]] {
        let question = 2;
        let message = FetchMessage::Set { question, parcels };
        let letter = Letter::new(FETCHES, Class::Ordered, &message, Bytes::from_static(&[7]));
        ReferenceService(&b.table).received(c.peer, letter);
    }
    network.settle();
    assert_eq!(network.cuts().len(), 2);
    set(&network, &x, 8).unwrap();
    drop(x);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn only_a_new_object_is_created_without_a_value() {
    let (network, a, b, c) = three();
    let x = b.put(1_u64);
    b.give(&x, &a);
    network.settle();
    let at_a: Vec<Ref<u64>> = a.taken();
    for parcel in [
        Parcel::Given { id: x.id(), fork: 9 },
        Parcel::Lent { id: x.id(), fork: 9 },
        Parcel::Keep { id: x.id() },
    ] {
        let letter = Letter::new(
            FETCHES,
            Class::Ordered,
            &FetchMessage::Create { parcel },
            Bytes::new(),
        );
        ReferenceService(&b.table).received(c.peer, letter);
    }
    assert_eq!(network.cuts().len(), 3);
    assert_eq!(b.table.stats().owned, 1);
    drop((x, at_a));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn a_function_that_must_not_block_asks_nothing() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = unset(&a, &b);
    network.settle();
    let sent = network.letters();
    as_async(|| {
        let refused = x.set(1).unwrap_err();
        let is_refused = matches!(refused, SetError::NoAnswer(FetchError::WouldBlock { .. }));
        assert!(is_refused, "{refused}");
        assert!(matches!(x.fetch(), Err(FetchError::WouldBlock { .. })));
        assert!(matches!(x.ready(), Err(FetchError::WouldBlock { .. })));
        assert!(matches!(x.is_ready(), Err(FetchError::WouldBlock { .. })));
    });
    assert_eq!(network.letters(), sent);
    set(&network, &x, 2).unwrap();
    // What is there needs no wait.
    assert_eq!(*fetched(&network, &x).unwrap(), 2);
    as_async(|| assert_eq!(*x.fetch().unwrap(), 2));
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}
