//! Values on their way: their order, their references, and where user code runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserializer, Serializer};

use super::*;
use crate::current::{Current, NoBlocking, Place, as_async, within_current};
use crate::remote_channel::PutRefused;

#[test]
fn jchan_11_values_keep_their_order_whatever_their_references_wait_for() {
    let (network, a, b, c) = three();
    let [at_a, _at_b, at_c] = shared(&network, [&a, &b, &c], 4);
    let value = b.put(5_u64);
    b.give(&value, &c);
    network.settle();
    let needs = c.taken().pop();
    // B is not asked whether A may have the reference.
    network.hold(&a, &b);
    let mut first = putting(&at_c, ReferringJob { number: 1, needs });
    let mut second = putting(
        &at_c,
        ReferringJob {
            number: 2,
            needs: None,
        },
    );
    network.settle();
    assert!(first.look().is_none() && second.look().is_none());
    assert_eq!((a.channels.figures().2, at_a.snapshot().unwrap().len()), (2, 0));
    network.release();
    network.settle();
    first.look().unwrap().unwrap();
    second.look().unwrap().unwrap();
    drop(value);
    let job = at_a.take().unwrap();
    assert_eq!((job.number, at_a.take().unwrap().number), (1, 2));
    assert_eq!(b.table.stats().owned, 1, "the value holds the object");
    let needs = job.needs.unwrap();
    let fetching = std::thread::spawn(move || *needs.fetch().unwrap());
    network.run_until(|| fetching.is_finished());
    assert_eq!(fetching.join().unwrap(), 5);
    drop((first, second, at_a, at_c, _at_b));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn a_reference_in_a_value_reaches_its_taker() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    for (owner, putter) in [(&a, &at_a), (&b, &at_b)] {
        // From the home itself, and from another process.
        let value = owner.put(7_u64);
        let job = ReferringJob {
            number: 1,
            needs: Some(value),
        };
        let mut put = OpenRequest(Box::pin({
            let putter = putter.clone();
            async move { putter.put_async(job).await }
        }));
        put.look();
        network.settle();
        let needs = take(&network, &at_c).needs.unwrap();
        let fetching = std::thread::spawn(move || *needs.fetch().unwrap());
        network.run_until(|| fetching.is_finished());
        assert_eq!(fetching.join().unwrap(), 7);
        network.settle();
    }
    drop((at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn jchan_14_an_unbuffered_put_of_the_home_returns_after_the_takers_value_was_encoded() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 0);
    let mut put = putting(&at_a, 1_u64);
    let mut taken = taking(&at_b);
    // The request arrives; the errand that encodes the value has not run.
    network.deliver_all();
    assert!(put.look().is_none());
    network.settle();
    put.look().unwrap().unwrap();
    assert_eq!(taken.look().unwrap().unwrap(), 1);
    drop((put, taken, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn a_value_with_a_lost_reference_is_the_error_of_its_taker_and_the_channel_goes_on() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 2);
    drop(at_c);
    let value = c.put(5_u64);
    let needs = Some(value.clone());
    let mut first = putting(
        &at_b,
        ReferringJob {
            number: 0,
            needs: None,
        },
    );
    network.settle();
    first.look().unwrap().unwrap();
    c.give(&value, &a);
    network.settle();
    at_a.put(ReferringJob {
        number: 1,
        needs: a.taken().pop(),
    })
    .unwrap();
    assert_eq!(take(&network, &at_b).number, 0);
    at_a.put(ReferringJob {
        number: 2,
        needs: None,
    })
    .unwrap();
    network.kill(&c);
    let mut lost = taking(&at_b);
    network.settle();
    let error = lost.look().unwrap().unwrap_err();
    assert!(error.to_string().contains("is lost"), "{error}");
    assert_eq!(take(&network, &at_b).number, 2);
    drop((first, lost, at_a, at_b));
    assert_empty(&network, &[&a, &b]);
    drop((value, needs));
}

#[test]
fn a_request_that_cannot_be_sent_is_an_error_and_leaves_nothing() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    network.set_full(Some(&a));
    let not_put = at_b.put(1_u64).map_err(|refused| {
        assert_eq!(refused.value, Some(1), "it comes back");
        refused.error
    });
    for refused in [not_put, at_b.ready(), at_b.take().map(drop), at_b.close()] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
    assert_eq!((b.channels.figures(), network.cuts().len()), ((0, 0, 0), 0));
    network.set_full(None);
    put(&network, &at_b, 2);
    // A process that cannot be told of its value is cut off, and the value goes back.
    let mut taken = taking(&at_c);
    network.deliver_all();
    network.settle();
    assert_eq!(taken.look().unwrap().unwrap(), 2);
    let mut taken = taking(&at_c);
    network.settle();
    network.set_full(Some(&c));
    at_a.put(3).unwrap();
    assert_eq!(network.cuts().len(), 1, "{:?}", network.cuts());
    assert!(taken.look().is_none());
    assert_eq!(at_a.snapshot().unwrap(), [3]);
    network.set_full(None);
    drop((taken, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn takers_are_told_if_no_thread_can_encode_a_value_and_the_value_stays() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 2);
    at_a.put(1_u64).unwrap();
    at_a.put(2).unwrap();
    let mut takes = [taking(&at_b), taking(&at_c)];
    network.deliver_all();
    network.refuse_errands();
    network.deliver_all();
    for take in &mut takes {
        let error = take.look().unwrap().unwrap_err();
        assert!(error.to_string().contains("no thread"), "{error}");
    }
    assert_eq!(at_a.snapshot().unwrap(), [1, 2]);
    assert_eq!([take(&network, &at_b), take(&network, &at_c)], [1, 2]);
    drop((takes, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn a_long_value_travels_both_ways() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    let long: Vec<u8> = (0..5 << 20).map(|at: u32| at as u8).collect();
    put(&network, &at_b, long.clone());
    assert!(take(&network, &at_c) == long);
    at_a.put(long.clone()).unwrap();
    assert!(take(&network, &at_c) == long, "the home encodes it");
    drop((at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

/// Serialises unless it is 13, and decodes unless it is 17.
#[derive(Clone, Debug, PartialEq)]
struct Fussy(u64);

impl Serialize for Fussy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            13 => Err(S::Error::custom("it is 13")),
            number => number.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Fussy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            17 => Err(D::Error::custom("it is 17")),
            number => Ok(Fussy(number)),
        }
    }
}

#[test]
fn a_value_that_cannot_be_read_is_the_error_of_its_taker_and_the_channel_goes_on() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 4);
    for number in [13, 17, 2] {
        at_a.put(Fussy(number)).unwrap();
    }
    let mut stream = at_b.stream();
    for text in ["it is 13", "it is 17"] {
        assert!(step(&mut stream).is_none());
        network.settle();
        let error = step(&mut stream).unwrap().unwrap().unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(step(&mut stream).is_none());
    network.settle();
    assert_eq!(step(&mut stream).unwrap().unwrap().unwrap(), Fussy(2));
    let refused = at_c.put(Fussy(13)).unwrap_err();
    assert_eq!(refused.value, Some(Fussy(13)));
    assert!(refused.to_string().contains("it is 13"), "{refused}");
    drop((stream, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noted(u64);

impl Drop for Noted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn no_value_is_dropped_on_the_thread_that_reads_links() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    at_a.put(Noted(1)).unwrap();
    let mut stream = at_b.stream();
    assert!(step(&mut stream).is_none());
    network.settle();
    assert_eq!(step(&mut stream).unwrap().unwrap().unwrap().0, 1);
    let copies = DROPPED.load(Ordering::SeqCst);
    stream.acknowledge();
    network.deliver_all();
    assert_eq!(
        DROPPED.load(Ordering::SeqCst),
        copies,
        "an errand drops the original"
    );
    network.settle();
    assert_eq!(DROPPED.load(Ordering::SeqCst), copies + 1);
    // A channel that is freed with a value in it.
    at_a.put(Noted(2)).unwrap();
    drop((stream, at_a, at_b));
    network.settle();
    let before = DROPPED.load(Ordering::SeqCst);
    drop(at_c);
    network.deliver_all();
    assert_eq!(DROPPED.load(Ordering::SeqCst), before);
    network.settle();
    assert_eq!(DROPPED.load(Ordering::SeqCst), before + 1);
    assert_empty(&network, &[&a, &b, &c]);
}

/// The place of a function that must not block. When it is asked for, another function takes a value.
struct TakesMeanwhile(RemoteChannel<u64>);

impl Place for TakesMeanwhile {
    fn block(&self) -> Result<(), NoBlocking> {
        assert_eq!(self.0.take().unwrap(), 1);
        Err(NoBlocking::Async)
    }

    fn resume(&self) {}
}

/// Whether the put must not wait, and gives this value back.
fn is_refused_with(put: Result<(), PutRefused<u64>>, value: u64) -> bool {
    let refused = put.unwrap_err();
    matches!(refused.error, Error::WouldBlock { .. }) && refused.value == Some(value)
}

/// A value whose clones are counted.
#[derive(Debug, Serialize, Deserialize)]
struct CountsClones(u64);

static CLONED: AtomicUsize = AtomicUsize::new(0);

impl Clone for CountsClones {
    fn clone(&self) -> Self {
        CLONED.fetch_add(1, Ordering::Relaxed);
        CountsClones(self.0)
    }
}

#[test]
fn a_value_that_was_not_put_comes_back_and_one_that_may_be_there_does_not() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared::<CountsClones>(&network, [&a, &b, &c], 1);
    at_a.put(CountsClones(1)).unwrap();
    let none = Duration::ZERO;
    let late = at_a.put_timeout(CountsClones(2), none).unwrap_err();
    assert!(matches!(late.error, Error::Timeout { .. }) && late.value.is_none());
    let late = at_b.put_timeout(CountsClones(3), none).unwrap_err();
    assert!(matches!(late.error, Error::Timeout { .. }) && late.value.is_none());
    network.settle();
    let mut waiting = {
        let channel = at_c.clone();
        begin(async move { channel.put_async(CountsClones(4)).await })
    };
    network.settle();
    at_a.close().unwrap();
    network.settle();
    let refused = waiting.look().unwrap().unwrap_err();
    assert!(refused.error.is_closed());
    assert_eq!(refused.value.unwrap().0, 4);
    let refused = at_a.put(CountsClones(5)).unwrap_err();
    assert!(refused.error.is_closed());
    assert_eq!(refused.value.unwrap().0, 5);
    let reason: Error = at_a.put_timeout(CountsClones(6), none).unwrap_err().into();
    assert!(reason.is_closed());
    assert_eq!(CLONED.load(Ordering::Relaxed), 0, "values move");
    drop((waiting, at_a, at_b, at_c));
    network.settle();
}

#[test]
fn a_put_that_is_refused_stores_nothing_though_there_is_room_meanwhile() {
    let (_network, a, _, _) = three();
    let channel = a.channel::<u64>(1);
    channel.put(1).unwrap();
    let place = Arc::new(TakesMeanwhile(channel.clone()));
    let owner = Arc::new(());
    let refused = within_current(
        &Arc::new(Current {
            owner,
            place,
            outer: None,
        }),
        || channel.put(2),
    );
    assert!(is_refused_with(refused, 2));
    assert!(channel.snapshot().unwrap().is_empty());
    assert_eq!(a.channels.figures(), (1, 0, 0), "nothing is open");
}

#[test]
fn a_function_that_must_not_block_asks_nothing_of_a_channel_elsewhere() {
    let (network, a, b, c) = three();
    let [at_a, at_b, _] = shared::<u64>(&network, [&a, &b, &c], 1);
    let sent = network.letters();
    as_async(|| {
        assert!(is_refused_with(at_b.put(1), 1));
        assert!(matches!(at_b.take(), Err(Error::WouldBlock { .. })));
        assert!(matches!(at_b.iter().next(), Some(Err(Error::WouldBlock { .. }))));
        assert_eq!(network.letters(), sent);
        // At home, what need not wait is done, and what would have to wait is not.
        at_a.put(2).unwrap();
        assert!(is_refused_with(at_a.put(3), 3));
        assert_eq!(at_a.take().unwrap(), 2);
        assert!(!at_a.is_ready().unwrap());
    });
}
