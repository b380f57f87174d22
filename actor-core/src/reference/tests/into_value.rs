//! Fetches that give the reference up.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::content::ObjectValue;
use super::super::{FetchError, IntoValueError, Ref};
use super::network::TestNetwork;
use super::{AT_ONCE, assert_empty, fetched, three};
use crate::Failure;

/// Takes the value out of a reference on a thread of its own, and lets the network run until it is there.
fn taken_out<T: selvedge_channels::Wire>(
    network: &TestNetwork,
    reference: Ref<T>,
) -> Result<T, IntoValueError<T>> {
    let waiting = std::thread::spawn(move || reference.into_value());
    network.run_until(|| waiting.is_finished());
    waiting.join().unwrap()
}

#[test]
fn jrem_13_a_value_that_every_holder_has_fetched_or_dropped_is_deleted() {
    let (network, a, b, c) = three();
    let at_a: Ref<Vec<u64>> = a.keep_at(&b);
    a.give(&at_a, &c);
    network.settle();
    b.fill(&at_a, ObjectValue::wire(vec![7_u64; 5000]));
    let [at_c]: [Ref<Vec<u64>>; 1] = c.taken().try_into().unwrap();
    assert_eq!(taken_out(&network, at_a).unwrap().len(), 5000);
    network.settle();
    assert_eq!(b.table.stats().owned, 1, "another process holds it");
    assert_eq!(taken_out(&network, at_c).unwrap().len(), 5000);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn jgc_04_a_fetch_that_gives_the_reference_up_drops_its_tracking_at_the_owner() {
    let (network, a, b, _) = three();
    let x = b.put("text".to_owned());
    b.give(&x, &a);
    network.settle();
    let [at_a]: [Ref<String>; 1] = a.taken().try_into().unwrap();
    let clone = at_a.clone();
    assert_eq!(taken_out(&network, at_a).unwrap(), "text");
    network.settle();
    assert_eq!(b.table.stats().forks, 1, "a clone is a reference of its own");
    let sent = network.letters();
    assert_eq!(clone.into_value().unwrap(), "text");
    assert_eq!(network.letters(), sent, "the value was there");
    network.settle();
    assert_eq!((b.table.stats().forks, b.table.stats().owned), (0, 1));
    drop(x);
    assert_empty(&[&a, &b]);
}

/// A value that counts its copies, made by cloning or by encoding.
#[derive(Debug)]
struct Copied;

static COPIES: AtomicUsize = AtomicUsize::new(0);

impl Clone for Copied {
    fn clone(&self) -> Self {
        COPIES.fetch_add(1, Ordering::Relaxed);
        Copied
    }
}

impl Serialize for Copied {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        COPIES.fetch_add(1, Ordering::Relaxed);
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Copied {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| Copied)
    }
}

#[test]
fn the_last_reference_at_the_owner_gives_the_value_itself() {
    let (network, a, b, _) = three();
    let x = b.put(Copied);
    assert!(x.clone().into_value().is_ok());
    assert_eq!(COPIES.swap(0, Ordering::Relaxed), 1, "a clone holds the value");
    let borrowed = x.local().unwrap();
    assert!(x.into_value().is_ok());
    assert_eq!(
        COPIES.swap(0, Ordering::Relaxed),
        1,
        "a function borrows the value"
    );
    drop(borrowed);
    assert!(b.put(Copied).into_value().is_ok());
    assert_eq!(COPIES.load(Ordering::Relaxed), 0);
    // Elsewhere the value is encoded once, and not cloned.
    let x = b.put(Copied);
    b.give(&x, &a);
    drop(x);
    network.settle();
    let [at_a]: [Ref<Copied>; 1] = a.taken().try_into().unwrap();
    assert!(taken_out(&network, at_a).is_ok());
    assert_eq!(COPIES.load(Ordering::Relaxed), 1);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn an_error_gives_the_reference_back() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let late = x.into_value_timeout(AT_ONCE).unwrap_err();
    assert!(matches!(late.error, FetchError::Timeout { .. }), "{late}");
    assert_eq!(late.to_string(), late.error.to_string());
    network.settle();
    b.fill(&late.reference, ObjectValue::wire(5_u64));
    assert_eq!(*fetched(&network, &late.reference).unwrap(), 5);
    assert_eq!(late.reference.into_value().unwrap(), 5);
    let y: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fail(&y, Failure::from_error("no model there".to_owned()));
    let failed = taken_out(&network, y).unwrap_err();
    assert!(matches!(failed.error, FetchError::Failed { .. }), "{failed}");
    drop(failed);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn an_await_of_the_reference_itself_gives_it_up() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let mut value = x.clone().into_future();
    let mut context = Context::from_waker(Waker::noop());
    assert!(value.as_mut().poll(&mut context).is_pending());
    b.fill(&x, ObjectValue::wire(5_u64));
    drop(x);
    network.pass(Duration::from_secs(1));
    network.settle();
    assert_eq!(b.table.stats().owned, 1, "the future holds the reference");
    let Poll::Ready(Ok(5)) = value.as_mut().poll(&mut context) else {
        panic!("the value has come")
    };
    network.settle();
    assert_empty(&[&a, &b]);
}
