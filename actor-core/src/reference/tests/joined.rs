//! Waits for one value, which share one question to its owner.

use std::sync::Arc;

use super::super::Ref;
use super::super::content::ObjectValue;
use super::super::fetch::{Fetched, Wish};
use super::network::TestMember;
use super::{AT_ONCE, assert_empty, fetched, three};
use crate::promise::Answer;

fn ask<T>(asker: &TestMember, reference: &Ref<T>, wish: Wish) -> Answer<Fetched> {
    use super::super::handle::ReferenceTable;
    Arc::clone(&asker.table).ask(reference.id(), wish)
}

#[test]
fn a_loop_of_short_waits_asks_once_and_is_answered_once() {
    let (network, a, b, _) = three();
    let mut x: Ref<u64> = a.keep_at(&b);
    network.settle();
    for _ in 0..10 {
        assert!(x.fetch_timeout(AT_ONCE).is_err() && x.ready_timeout(AT_ONCE).is_err());
        x = x.into_value_timeout(AT_ONCE).unwrap_err().reference;
        network.settle();
    }
    assert_eq!(network.questions_at(&b), 2, "for the value, and for a word");
    b.fill(&x, ObjectValue::wire(5_u64));
    network.settle();
    assert_eq!(network.questions_at(&a), 2, "the answers");
    assert_eq!(
        *fetched(&network, &x).unwrap(),
        5,
        "a question with an answer is over"
    );
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn all_who_wait_for_a_value_get_the_answer_to_one_question() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = a.keep_at(&b);
    let of_c: Ref<u64> = a.keep_at(&c);
    network.settle();
    let values = [(); 3].map(|()| ask(&a, &x, Wish::Value));
    let words = [(); 3].map(|()| ask(&a, &x, Wish::Readiness));
    let states = [(); 2].map(|()| ask(&a, &x, Wish::State));
    let mut other = ask(&a, &of_c, Wish::Value);
    network.settle();
    assert_eq!((network.questions_at(&b), network.questions_at(&c)), (4, 1));
    for mut state in states {
        assert!(matches!(state.try_take(), Some(Ok(Fetched::Ready(false)))));
    }
    b.fill(&x, ObjectValue::wire(5_u64));
    network.settle();
    for mut value in values {
        assert!(matches!(value.try_take(), Some(Ok(Fetched::Value { .. }))));
    }
    for mut word in words {
        assert!(matches!(word.try_take(), Some(Ok(Fetched::Ready(true)))));
    }
    assert!(other.try_take().is_none());
    network.kill(&c);
    assert!(matches!(other.try_take(), Some(Ok(Fetched::OwnerLost))));
    drop((x, of_c));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn the_owners_death_reaches_all_who_wait() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    drop(ask(&a, &x, Wish::Value));
    let waiting = [(); 3].map(|()| ask(&a, &x, Wish::Value));
    network.settle();
    network.kill(&b);
    for mut answer in waiting {
        assert!(matches!(answer.try_take(), Some(Ok(Fetched::OwnerLost))));
    }
    drop(x);
    network.settle();
    assert_empty(&[&a]);
}
