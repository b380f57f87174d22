//! The references of several processes in one: letters go through a queue, user code and time pass when a test says so.

mod again;
mod carried;
mod edges;
mod into_value;
mod joined;
pub(crate) mod network;
mod ready;
mod set;
mod unheard;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge_channels::Traits;
use serde::{Deserialize, Serialize};

use super::content::ObjectValue;
use super::fetch::{Fetched, Wish};
use super::handle::ReferenceTable;
use super::{FetchError, Ref};
use crate::Failure;
use crate::actor::arguments::to_bytes;
use crate::hub::delivering::delivering;
use network::{TestMember, TestNetwork, three};

const AT_ONCE: Duration = Duration::ZERO;

/// Asserts that no process has an entry left.
fn assert_empty(processes: &[&TestMember]) {
    for process in processes {
        let stats = process.table.stats();
        assert_eq!(
            stats,
            selvedge_objects::refs::RefStats::default(),
            "{:?}",
            process.ids()
        );
    }
}

/// Starts a fetch, lets the network run, and returns its outcome.
fn fetched<T: selvedge_channels::Wire>(
    network: &TestNetwork,
    reference: &Ref<T>,
) -> Result<Arc<T>, FetchError> {
    let reference = reference.clone();
    let waiting = std::thread::spawn(move || reference.fetch_timeout(Duration::from_secs(60)));
    network.run_until(|| waiting.is_finished());
    waiting.join().unwrap()
}

#[test]
fn rref_01_a_clone_sends_nothing_and_rref_09_the_last_drop_frees() {
    let (network, a, b, _) = three();
    let x: Ref<String> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::wire("text".to_owned()));
    network.settle();
    let sent = network.letters();
    let clones: Vec<_> = (0..100).map(|_| x.clone()).collect();
    drop((clones, x.clone()));
    assert_eq!(network.letters(), sent);
    assert_eq!(b.table.stats().owned, 1);
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn rref_02_a_reference_is_there_before_its_owner_has_heard_of_it() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    assert_eq!((b.table.stats().owned, a.table.stats().pending), (0, 1));
    network.settle();
    assert!(x.confirmed(AT_ONCE).unwrap());
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn rref_06_the_owner_has_one_instance_and_rref_35_what_comes_home_is_that_instance() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::wire(7_u64));
    a.give(&x, &b);
    a.give(&x, &b);
    network.settle();
    let [first, second]: [Ref<u64>; 2] = b.taken().try_into().unwrap();
    let (one, two) = (first.local().unwrap(), second.local().unwrap());
    assert!(Arc::ptr_eq(&one, &two));
    let sent = network.letters();
    assert!(Arc::ptr_eq(&first.fetch_timeout(AT_ONCE).unwrap(), &one));
    assert_eq!(network.letters(), sent, "on the owner a fetch asks nobody");
    drop((first, second, x));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn rref_19_a_fetch_may_come_before_the_value_and_before_the_call() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.hold(&a, &b);
    a.give(&x, &c);
    network.settle();
    let x_at_c: Ref<u64> = c.taken().pop().unwrap();
    let asked = x_at_c.clone();
    let waiting = std::thread::spawn(move || asked.fetch());
    network.run_until(|| network.has_question_at(&b));
    network.release();
    network.settle();
    b.fill(&x, ObjectValue::wire(11_u64));
    network.run_until(|| waiting.is_finished());
    assert_eq!(*waiting.join().unwrap().unwrap(), 11);
    drop((x, x_at_c));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn rref_21_a_reference_passed_home_is_held_until_it_is_accepted() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::wire(1_u64));
    a.give(&x, &b);
    drop(x);
    assert_eq!(a.table.stats().children, 1);
    network.settle();
    assert_eq!(b.table.stats().forks, 0, "the owner has no user for it");
    let [home]: [Ref<u64>; 1] = b.taken().try_into().unwrap();
    assert_eq!(home.local().as_deref(), Some(&1));
    drop(home);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn rref_23_the_owner_lists_a_receiver_before_the_letter_leaves() {
    let (network, a, b, _) = three();
    let x = b.put(5_u64);
    let sent = network.letters();
    b.give(&x, &a);
    drop(x);
    assert_eq!((b.table.stats().owned, b.table.stats().forks), (1, 1));
    network.settle();
    assert_eq!(network.letters(), sent + 1, "no message beside the call");
    let [at_a]: [Ref<u64>; 1] = a.taken().try_into().unwrap();
    assert_eq!(*fetched(&network, &at_a).unwrap(), 5);
    drop(at_a);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn jrem_12_a_fetched_value_is_kept_and_jrem_11_its_owner_asks_nobody() {
    let (network, a, b, _) = three();
    let x = b.put(vec![1_u8; 1000]);
    b.give(&x, &a);
    network.settle();
    let [at_a]: [Ref<Vec<u8>>; 1] = a.taken().try_into().unwrap();
    let first = fetched(&network, &at_a).unwrap();
    let sent = network.letters();
    let again = [at_a.fetch().unwrap(), at_a.clone().fetch().unwrap()];
    assert!(again.iter().all(|other| Arc::ptr_eq(other, &first)));
    assert!(Arc::ptr_eq(&x.fetch().unwrap(), &x.local().unwrap()));
    assert_eq!(network.letters(), sent);
    drop((x, at_a));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn rref_24_rref_25_a_call_runs_once_its_references_are_confirmed() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    network.hold(&b, &c);
    a.give(&x, &c);
    network.settle();
    assert_eq!((c.taken::<u64>().len(), c.table.stats().pending), (0, 1));
    assert_eq!(a.table.stats().children, 1, "the parent is held meanwhile");
    network.release();
    network.settle();
    assert_eq!((c.taken::<u64>().len(), a.table.stats().children), (1, 0));
    drop(x);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn rref_29_a_failure_is_fetched_again_and_again() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fail(&x, Failure::from_error("no model there".to_owned()));
    for _ in 0..3 {
        let error = fetched(&network, &x).unwrap_err();
        assert!(matches!(error, FetchError::Failed { .. }), "{error}");
        assert!(error.to_string().contains("no model there"), "{error}");
    }
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn an_error_of_a_reference_names_the_type_of_its_value() {
    let (_network, a, b, _) = three();
    let at_home: Ref<Vec<String>> = Ref::of(a.table.create());
    let elsewhere: Ref<Album> = a.keep_at(&b);
    let fetched = [
        at_home.fetch_timeout(AT_ONCE).unwrap_err(),
        at_home.ready_timeout(AT_ONCE).unwrap_err(),
        elsewhere.fetch_timeout(AT_ONCE).map(drop).unwrap_err(),
    ];
    for (error, name) in fetched
        .iter()
        .zip(["`Ref<Vec<String>>`", "`Ref<Vec<String>>`", "`Ref<Album>`"])
    {
        let text = error.to_string();
        assert!(text.starts_with(name) && !text.contains("process"), "{text}");
    }
    at_home.set(Vec::new()).unwrap();
    let again = at_home.set(Vec::new()).unwrap_err().to_string();
    assert!(again.starts_with("`Ref<Vec<String>>` "), "{again}");
}

#[test]
fn rref_30_a_creation_that_is_not_confirmed_in_time_is_an_error_of_its_own() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.hold(&a, &b);
    let asked = x.clone();
    let waiting = std::thread::spawn(move || asked.fetch());
    network.run_until(|| network.letters() == 2);
    network.pass(Duration::from_secs(61));
    network.run_until(|| waiting.is_finished());
    for error in [waiting.join().unwrap().unwrap_err(), x.fetch().unwrap_err()] {
        assert!(matches!(error, FetchError::CreateTimedOut { .. }), "{error}");
        assert!(error.to_string().contains("may not exist"), "{error}");
    }
    assert!(a.table.pass(&[Arc::clone(x.handle())], c.peer).is_err());
    network.release();
    network.settle();
    b.fill(&x, ObjectValue::wire(8_u64));
    assert_eq!(*fetched(&network, &x).unwrap(), 8, "it was only late");
    drop(x);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn rref_37_a_shutdown_lists_what_is_left() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let mut at_b = b.table.end(Duration::from_secs(1));
    network.settle();
    assert!(
        at_b.wait(Some(std::time::Instant::now())).is_none(),
        "a process still holds one"
    );
    network.pass(Duration::from_secs(2));
    network.settle();
    let leaks = at_b.wait(None).unwrap().unwrap();
    assert_eq!(leaks.len(), 1, "{leaks:?}");
    let mut at_a = a.table.end(Duration::from_secs(1));
    network.settle();
    assert!(at_a.wait(None).unwrap().unwrap().is_empty());
    drop(x);
}

#[test]
fn rref_38_a_reference_does_not_serialise_outside_a_message() {
    let (_network, a, ..) = three();
    let x = a.put(1_u64);
    let failure = to_bytes(&x, &Traits::LETTER).unwrap_err();
    assert!(failure.to_string().contains("valid only inside"), "{failure}");
    assert!(postcard::to_allocvec(&x).is_err());
    let (bytes, _handles) = super::transit::leaving(|| postcard::to_allocvec(&x).unwrap());
    assert!(
        postcard::from_bytes::<Ref<u64>>(&bytes).is_err(),
        "nothing came beside it"
    );
}

#[test]
fn rref_42_the_owners_death_ends_every_wait_and_a_users_death_frees() {
    let (network, a, b, c) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let asked = x.clone();
    let waiting = std::thread::spawn(move || asked.fetch());
    network.run_until(|| network.has_question_at(&b));
    network.kill(&b);
    network.run_until(|| waiting.is_finished());
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}");
    assert!(matches!(fetched(&network, &x), Err(FetchError::OwnerLost { .. })));
    assert!(!x.confirmed(AT_ONCE).unwrap());
    drop(x);
    let y = a.put(3_u64);
    a.give(&y, &c);
    drop(y);
    network.settle();
    assert_eq!(a.table.stats().forks, 1);
    network.kill(&c);
    network.settle();
    assert_empty(&[&a]);
}

#[derive(Clone, Serialize, Deserialize)]
struct Album {
    title: String,
    pages: Vec<Ref<u64>>,
}

#[test]
fn rref_08_values_that_hold_references_take_them_along() {
    let (network, a, b, c) = three();
    let pages = vec![b.put(1_u64), b.put(2), b.put(3)];
    let album = b.put(Album {
        title: "summer".to_owned(),
        pages,
    });
    b.give(&album, &c);
    network.settle();
    let [at_c]: [Ref<Album>; 1] = c.taken().try_into().unwrap();
    c.give(&at_c, &a);
    network.settle();
    let [at_a]: [Ref<Album>; 1] = a.taken().try_into().unwrap();
    drop((album, at_c));
    network.settle();
    let read = fetched(&network, &at_a).unwrap();
    assert_eq!((read.title.as_str(), read.pages.len()), ("summer", 3));
    let sum: u64 = read
        .pages
        .iter()
        .map(|page| *fetched(&network, page).unwrap())
        .sum();
    assert_eq!(sum, 6);
    let page = read.pages[1].clone();
    drop((read, at_a));
    network.settle();
    assert_eq!(
        (b.table.stats().owned, *fetched(&network, &page).unwrap()),
        (1, 2)
    );
    drop(page);
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn a_value_without_serde_stays_and_the_error_says_so() {
    struct Model;
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::moved(Model));
    let error = fetched(&network, &x).unwrap_err();
    assert!(matches!(error, FetchError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("serde"), "{error}");
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_value_is_dropped_off_the_link_and_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::moved(Counted));
    drop(x);
    network.deliver_all();
    assert_eq!(DROPS.load(Ordering::Relaxed), 0, "it is an errand");
    network.settle();
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    // A value that comes too late is dropped at once.
    let y: Ref<u64> = a.keep_at(&b);
    let id = y.id();
    network.settle();
    drop(y);
    network.settle();
    assert!(b.table.fill(id, Ok(ObjectValue::moved(Counted))).is_err());
    assert_eq!(DROPS.load(Ordering::Relaxed), 2);
    assert_empty(&[&a, &b]);
}

#[test]
fn parcels_that_no_lawful_process_sends_change_nothing() {
    use selvedge_objects::refs::Parcel;
    let (network, a, b, c) = three();
    let x = b.put(9_u64);
    b.give(&x, &a);
    network.settle();
    let at_a: Vec<Ref<u64>> = a.taken();
    let forged = Parcel::Given { id: x.id(), fork: 77 };
    assert!(!a.table.arrived(c.peer, vec![forged], |_| unreachable!()));
    assert!(
        !b.table
            .arrived(c.peer, vec![Parcel::Keep { id: x.id() }], |_| unreachable!())
    );
    let cuts = network.cuts();
    assert!(
        cuts.len() == 2 && cuts.iter().all(|cut| cut.contains("not its own")),
        "{cuts:?}"
    );
    network.settle();
    assert_eq!(*fetched(&network, &at_a[0]).unwrap(), 9);
    drop((x, at_a));
    network.settle();
    assert_empty(&[&a, &b, &c]);
}

#[test]
fn a_value_whose_last_reference_goes_while_a_letter_is_delivered_is_dropped_by_an_errand() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (network, a, ..) = three();
    let filled: Ref<Counted> = Ref::of(a.table.create());
    a.fill(&filled, ObjectValue::moved(Counted));
    delivering(|| drop(filled));
    assert_eq!(DROPS.load(Ordering::Relaxed), 0, "this thread reads links");
    network.settle();
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    let freed = a.table.create();
    let id = freed.id();
    drop(freed);
    let refused = delivering(|| a.table.fill(id, Ok(ObjectValue::moved(Counted))));
    assert!(refused.is_err());
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    network.settle();
    assert_eq!(DROPS.load(Ordering::Relaxed), 2);
    assert_empty(&[&a]);
}

#[test]
fn no_answer_waits_for_the_value_of_another_question_and_no_question_for_an_answer() {
    let (network, a, b, _) = three();
    let pairs = [(&a, &b), (&b, &a), (&a, &b), (&b, &a)];
    let objects = pairs.map(|(asker, owner)| asker.keep_at::<u64>(owner));
    network.settle();
    let asked: Vec<_> = pairs
        .into_iter()
        .zip(objects)
        .map(|((asker, owner), object)| {
            owner.fill(&object, ObjectValue::wire(7_u64));
            let answer = Arc::clone(&asker.table).ask(object.id(), Wish::Value);
            (object, answer)
        })
        .collect();
    let mut streams = network.streams();
    network.deliver_all();
    while network.run_errand() {}
    streams.extend(network.streams());
    assert_eq!(streams.len(), 8, "four questions, and their answers");
    for process in [a.peer, b.peer] {
        let sent = streams.iter().filter(|(from, _)| *from == process);
        let mut sent: Vec<u64> = sent.map(|(_, stream)| *stream).collect();
        sent.sort_unstable();
        sent.dedup();
        assert_eq!(sent.len(), 4, "{streams:?}");
    }
    network.settle();
    for (object, mut answer) in asked {
        assert!(matches!(answer.try_take(), Some(Ok(Fetched::Value { .. }))));
        drop(object);
    }
    network.settle();
    assert_empty(&[&a, &b]);
}
