//! Questions that cannot be answered or asked at present.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use selvedge_channels::Traits;

use super::super::Ref;
use super::super::content::ObjectValue;
use super::super::fetch::{Fetched, Wish};
use super::{assert_empty, fetched, three};
use crate::actor::arguments::to_bytes;
use crate::body::Body;

#[test]
fn whoever_fetches_is_told_if_no_thread_can_encode_the_value_and_may_ask_again() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::wire(5_u64));
    let ask = || x.ask(Wish::Value).unwrap();
    let (mut first, mut joined) = (ask(), ask());
    network.deliver_all();
    network.refuse_errands();
    network.deliver_all();
    for answer in [&mut first, &mut joined] {
        let told = answer.try_take().unwrap().unwrap();
        let Fetched::Unreadable(why) = told else {
            panic!("another answer")
        };
        assert!(why.to_string().contains("no thread"), "{why}");
    }
    assert_eq!(*fetched(&network, &x).unwrap(), 5);
    drop((x, first, joined));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn whoever_sets_a_value_is_told_if_no_thread_can_take_it() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = Ref::of(a.table.unset(b.peer).unwrap());
    network.settle();
    let body = Body::from(Bytes::from(to_bytes(&7_u64, const { &Traits::LETTER }).unwrap()));
    let object = Arc::clone(x.handle());
    let mut answer = a.table.as_table().ask_to_set(object, body, Vec::new());
    network.deliver_all();
    network.refuse_errands();
    network.deliver_all();
    let told = answer.try_take().unwrap().unwrap();
    assert!(matches!(told, Fetched::Unreadable(_)));
    drop((x, answer));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn an_owner_that_is_away_is_not_lost() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = c.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::wire(5_u64));
    network.set_away(Some(&b));
    c.give(&x, &a);
    network.settle();
    assert!(a.taken::<u64>().is_empty(), "the owner has not listed it yet");
    network.set_away(None);
    network.pass(Duration::from_secs(5));
    network.settle();
    let x_at_a: Ref<u64> = a.taken().pop().unwrap();
    drop(x);
    network.settle();
    assert_eq!(*fetched(&network, &x_at_a).unwrap(), 5);
    drop(x_at_a);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn an_owner_whose_death_is_not_told_yet_is_lost() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    network.vanish(&b);
    let told = x.ask(Wish::Value).unwrap().try_take().unwrap().unwrap();
    assert!(matches!(told, Fetched::OwnerLost));
    drop(x);
    network.kill(&b);
    network.settle();
    assert_empty(&[&a]);
}
