//! Whether a value is made, and the release of a reference.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use selvedge_cluster::frame::Class;

use super::super::content::ObjectValue;
use super::super::fetch::{FETCHES, FetchMessage};
use super::super::letters::ReferenceService;
use super::super::{FetchError, Ref};
use super::network::TestNetwork;
use super::{AT_ONCE, assert_empty, three};
use crate::Failure;
use crate::hub::post::Letter;

/// A value that serde does not know.
struct Model;

/// Runs `ask` on a thread of its own, and the network until the answer is there.
fn asked<T: 'static, R: Send + 'static>(
    network: &TestNetwork,
    reference: &Ref<T>,
    ask: impl FnOnce(Ref<T>) -> R + Send + 'static,
) -> R {
    let reference = reference.clone();
    let waiting = std::thread::spawn(move || ask(reference));
    network.run_until(|| waiting.is_finished());
    waiting.join().unwrap()
}

#[test]
fn jrem_16_the_owner_tells_whether_a_value_is_made() {
    let (network, a, b, _) = three();
    let x: Ref<Model> = a.keep_at(&b);
    network.settle();
    assert!(!asked(&network, &x, |x| x.is_ready()).unwrap());
    let sent = network.letters();
    assert!(!asked(&network, &x, |x| x.is_ready()).unwrap());
    assert_eq!(network.letters(), sent + 2, "a question and its answer");
    b.fill(&x, ObjectValue::moved(Model));
    assert!(asked(&network, &x, |x| x.is_ready()).unwrap());
    a.give(&x, &b);
    network.settle();
    let [home]: [Ref<Model>; 1] = b.taken().try_into().unwrap();
    let sent = network.letters();
    assert!(home.is_ready().unwrap() && home.ready().is_ok());
    assert_eq!(network.letters(), sent, "the owner asks nobody");
    let number = b.put(5_u64);
    b.give(&number, &a);
    network.settle();
    let [at_a]: [Ref<u64>; 1] = a.taken().try_into().unwrap();
    asked(&network, &at_a, |at_a| at_a.fetch()).unwrap();
    let sent = network.letters();
    assert!(at_a.is_ready().unwrap() && at_a.ready().is_ok());
    assert_eq!(network.letters(), sent, "it was fetched already");
    drop((x, home, number, at_a));
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_wait_for_a_value_leaves_it_where_it_is() {
    let (network, a, b, _) = three();
    let x: Ref<Model> = a.keep_at(&b);
    network.settle();
    let early = asked(&network, &x, |x| x.ready_timeout(Duration::from_millis(1)));
    assert!(matches!(early, Err(FetchError::Timeout { .. })), "{early:?}");
    let waiting = {
        let x = x.clone();
        std::thread::spawn(move || x.ready())
    };
    network.settle();
    b.fill(&x, ObjectValue::moved(Model));
    network.run_until(|| waiting.is_finished());
    waiting.join().unwrap().unwrap();
    let there = asked(&network, &x, |x| x.ready_timeout(Duration::from_secs(60)));
    assert!(there.is_ok(), "{there:?}");
    drop(x);
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn a_value_that_was_not_made_is_ready_as_an_error() {
    let (network, a, b, _) = three();
    let x: Ref<Model> = a.keep_at(&b);
    network.settle();
    b.fail(&x, Failure::from_error("no model there".to_owned()));
    assert!(asked(&network, &x, |x| x.is_ready()).unwrap());
    let error = asked(&network, &x, |x| x.ready()).unwrap_err();
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("no model there"), "{error}");
    network.kill(&b);
    let error = x.ready().unwrap_err();
    assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}");
    assert!(matches!(x.is_ready(), Err(FetchError::OwnerLost { .. })));
    drop(x);
    network.settle();
    assert_empty(&[&a]);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_waker_is_woken_off_the_link() {
    let (network, a, b, _) = three();
    let x: Ref<Model> = a.keep_at(&b);
    network.settle();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut ready = Box::pin(x.until_ready());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    network.kill(&b);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "it is an errand");
    network.settle();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let ended = ready.as_mut().poll(&mut context);
    assert!(
        matches!(ended, Poll::Ready(Err(FetchError::OwnerLost { .. }))),
        "{ended:?}"
    );
}

#[test]
fn an_owner_that_answers_another_question_is_an_error() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    let asked = x.clone();
    let waiting = std::thread::spawn(move || asked.fetch());
    network.run_until(|| network.has_question_at(&b));
    for question in 0..100 {
        let message = FetchMessage::Ready {
            question,
            is_ready: true,
        };
        let letter = Letter::new(FETCHES, Class::Ordered, &message, Bytes::new());
        ReferenceService(&a.table).received(b.peer, letter);
    }
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error, FetchError::Unreadable { .. }), "{error}");
    drop(x);
    network.settle();
    assert_eq!((a.table.stats().held, b.table.stats().owned), (0, 0));
}

#[test]
fn jgc_05_a_release_tells_the_owner_at_once() {
    let (network, a, b, _) = three();
    let x: Ref<u64> = a.keep_at(&b);
    network.settle();
    assert!(x.confirmed(AT_ONCE).unwrap());
    let sent = network.letters();
    let clone = x.clone();
    x.release();
    assert_eq!(
        (network.letters(), b.table.stats().owned),
        (sent, 1),
        "a clone holds it"
    );
    clone.release();
    assert_eq!(network.letters(), sent + 1, "no time has passed");
    network.run_until(|| b.table.stats().owned == 0);
    // On the owner, and before the owner has confirmed.
    b.put(1_u64).release();
    a.keep_at::<u64>(&b).release();
    network.settle();
    assert_empty(&[&a, &b]);
}

#[test]
fn jgc_06_the_drop_of_the_last_reference_frees_the_value() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Large;
    impl Drop for Large {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (network, a, b, c) = three();
    let x: Ref<Large> = a.keep_at(&b);
    network.settle();
    b.fill(&x, ObjectValue::moved(Large));
    a.give(&x, &c);
    drop(x);
    network.settle();
    let [at_c]: [Ref<Large>; 1] = c.taken().try_into().unwrap();
    assert_eq!(DROPS.load(Ordering::Relaxed), 0);
    drop(at_c);
    network.settle();
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    assert_empty(&[&a, &b, &c]);
}
