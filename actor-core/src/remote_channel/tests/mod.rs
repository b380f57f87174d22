//! The channels of several processes in one: letters go through a queue, and errands run when a test says so.

mod hostile;
mod values;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use selvedge_channels::Wire;
use selvedge_objects::refs::RefStats;
use serde::{Deserialize, Serialize};

use super::{ChannelStream, RemoteChannel, RemoteChannelError as Error};
use crate::reference::Ref;
use crate::reference::tests::network::{TestMember, TestNetwork, three};

/// A value that may hold a reference.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReferringJob {
    number: u64,
    needs: Option<Ref<u64>>,
}

impl TestMember {
    fn channel<T: Wire>(&self, capacity: usize) -> RemoteChannel<T> {
        RemoteChannel::of(self.channels.make(capacity))
    }

    fn channel_at<T: Wire>(&self, home: &TestMember, capacity: usize) -> RemoteChannel<T> {
        RemoteChannel::of(self.channels.make_at(home.peer, capacity).unwrap())
    }

    fn give_channel<T: Wire>(&self, channel: &RemoteChannel<T>, to: &TestMember) {
        self.give(&Ref::<()>::of(Arc::clone(channel.handle())), to);
    }

    /// The channel that was given to this process.
    fn taken_channel<T: Wire>(&self) -> RemoteChannel<T> {
        let given: Ref<()> = self.taken().pop().unwrap();
        RemoteChannel::of(Arc::clone(given.handle()))
    }
}

/// A channel at A, as A, B and C hold it.
fn shared<T: Wire>(
    network: &TestNetwork,
    [a, b, c]: [&TestMember; 3],
    capacity: usize,
) -> [RemoteChannel<T>; 3] {
    let at_a = a.channel(capacity);
    let others = [b, c].map(|other| {
        a.give_channel(&at_a, other);
        network.settle();
        other.taken_channel()
    });
    let [at_b, at_c] = others;
    [at_a, at_b, at_c]
}

/// A request that was begun.
struct OpenRequest<T>(Pin<Box<dyn Future<Output = T>>>);

fn begin<T>(request: impl Future<Output = T> + 'static) -> OpenRequest<T> {
    let mut begun = OpenRequest(Box::pin(request));
    assert!(begun.look().is_none(), "it is not answered at once");
    begun
}

impl<T> OpenRequest<T> {
    /// The outcome, if there is one.
    fn look(&mut self) -> Option<T> {
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

fn putting<T: Wire>(channel: &RemoteChannel<T>, value: T) -> OpenRequest<Result<(), Error>> {
    let channel = channel.clone();
    begin(async move { Ok(channel.put_async(value).await?) })
}

fn taking<T: Wire>(channel: &RemoteChannel<T>) -> OpenRequest<Result<T, Error>> {
    let channel = channel.clone();
    begin(async move { channel.take_async().await })
}

/// The next step of a loop, if there is one.
fn step<T: Wire>(stream: &mut ChannelStream<T>) -> Option<Option<Result<T, Error>>> {
    match Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(step) => Some(step),
        Poll::Pending => None,
    }
}

/// Puts from another process.
fn put<T: Wire>(network: &TestNetwork, channel: &RemoteChannel<T>, value: T) {
    let mut put = putting(channel, value);
    network.settle();
    put.look().unwrap().unwrap();
}

/// Takes in another process.
fn take<T: Wire>(network: &TestNetwork, channel: &RemoteChannel<T>) -> T {
    let mut take = taking(channel);
    network.settle();
    take.look().unwrap().unwrap()
}

/// Asserts that no process has anything left.
fn assert_empty(network: &TestNetwork, processes: &[&TestMember]) {
    network.settle();
    for process in processes {
        let references = process.table.stats();
        assert_eq!(references, RefStats::default(), "{:?}", process.ids());
        assert_eq!(process.channels.figures(), (0, 0, 0));
    }
}

#[test]
fn requests_may_be_awaited_on_any_thread() {
    fn is_send<T: Send + 'static>(_: impl Fn(&'static RemoteChannel<u64>) -> T) {}
    is_send(|channel| channel.put_async(1));
    is_send(RemoteChannel::take_async);
    is_send(RemoteChannel::peek_async);
    is_send(RemoteChannel::ready_async);
    is_send(RemoteChannel::is_ready_async);
    is_send(RemoteChannel::stream);
}

#[test]
fn the_last_holder_frees_a_channel_and_what_is_in_it() {
    let (network, a, b, c) = three();
    let value = c.put(7_u64);
    let channel: RemoteChannel<ReferringJob> = b.channel_at(&a, 4);
    let needs = Some(value.clone());
    c.give(&value, &b);
    network.settle();
    let at_b = b.taken().pop();
    put(
        &network,
        &channel,
        ReferringJob {
            number: 1,
            needs: at_b,
        },
    );
    drop(value);
    network.settle();
    assert_eq!((a.channels.figures(), c.table.stats().owned), ((1, 0, 0), 1));
    drop((channel, needs));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn jchan_16_what_a_dead_taker_has_not_acknowledged_comes_before_everything_younger() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 4);
    for value in 1..=3 {
        put(&network, &at_b, value);
    }
    let mut stream = at_c.stream();
    assert!(step(&mut stream).is_none());
    network.settle();
    assert_eq!(step(&mut stream).unwrap().unwrap().unwrap(), 1);
    assert!(
        step(&mut stream).is_none(),
        "the next step acknowledges the first value"
    );
    network.settle();
    assert_eq!(step(&mut stream).unwrap().unwrap().unwrap(), 2);
    network.kill(&c);
    assert_eq!(at_a.snapshot().unwrap(), [2, 3]);
    assert_eq!([take(&network, &at_b), take(&network, &at_b)], [2, 3]);
    drop((at_a, at_b));
    assert_empty(&network, &[&a, &b]);
}

#[test]
fn the_requests_of_a_process_that_dies_are_gone() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    put(&network, &at_b, 1);
    let _puts = putting(&at_c, 2);
    let empty: RemoteChannel<u64> = a.channel(1);
    a.give_channel(&empty, &c);
    network.settle();
    let _takes = taking(&c.taken_channel::<u64>());
    network.settle();
    network.kill(&c);
    assert_eq!(take(&network, &at_b), 1);
    assert!(!at_a.is_ready().unwrap(), "the put that waited is gone");
    empty.put(3).unwrap();
    assert_eq!(empty.take().unwrap(), 3, "nothing waits for a value any more");
    drop((at_a, at_b, empty));
    assert_empty(&network, &[&a, &b]);
}

#[test]
fn the_death_of_the_home_ends_every_request_and_later_ones_fail_at_once() {
    let (network, a, b, c) = three();
    let [_at_a, at_b, _at_c] = shared(&network, [&a, &b, &c], 1);
    put(&network, &at_b, 1);
    let (mut puts, mut stream) = (putting(&at_b, 2), at_b.stream());
    assert!(step(&mut stream).is_none());
    network.settle();
    assert_eq!(step(&mut stream).unwrap().unwrap().unwrap(), 1);
    puts.look().unwrap().unwrap();
    let mut puts = putting(&at_b, 3);
    assert!(step(&mut stream).is_none());
    network.kill(&a);
    assert!(matches!(puts.look(), Some(Err(Error::HomeLost { .. }))));
    assert!(matches!(
        step(&mut stream),
        Some(Some(Err(Error::HomeLost { .. })))
    ));
    assert!(matches!(step(&mut stream), Some(None)), "the loop tells it once");
    assert!(matches!(at_b.take(), Err(Error::HomeLost { .. })));
    assert!(matches!(at_b.close(), Err(Error::HomeLost { .. })));
    assert_eq!(b.channels.figures(), (0, 0, 0));
}

#[test]
fn requests_wait_for_a_channel_whose_maker_is_slow() {
    let (network, a, b, c) = three();
    network.hold(&a, &b);
    let channel: RemoteChannel<u64> = a.channel_at(&b, 1);
    a.give_channel(&channel, &c);
    network.settle();
    let at_c = c.taken_channel();
    let (mut first, mut second, mut taken) = (putting(&at_c, 1), putting(&at_c, 2), taking(&at_c));
    network.settle();
    assert_eq!(b.channels.figures(), (0, 0, 3), "the channel does not exist yet");
    assert!(first.look().is_none());
    network.release();
    network.settle();
    first.look().unwrap().unwrap();
    assert_eq!(
        taken.look().unwrap().unwrap(),
        1,
        "in the order in which they came"
    );
    second.look().unwrap().unwrap();
    assert_eq!(take(&network, &at_c), 2);
    drop((first, second, taken, channel, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn requests_to_a_channel_whose_maker_dies_before_it_was_made_fail() {
    let (network, a, b, c) = three();
    network.hold(&a, &b);
    let channel: RemoteChannel<u64> = a.channel_at(&b, 1);
    a.give_channel(&channel, &c);
    network.settle();
    let at_c = c.taken_channel();
    let mut put = putting(&at_c, 1);
    network.settle();
    network.kill(&a);
    network.settle();
    assert!(matches!(put.look(), Some(Err(Error::Gone { .. }))));
    let mut late = taking(&at_c);
    network.settle();
    assert!(matches!(late.look(), Some(Err(Error::Gone { .. }))));
    drop((put, late, at_c));
    assert_empty(&network, &[&b, &c]);
}

#[test]
fn jchan_13_closing_ends_what_waits_in_other_processes() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    at_a.put(1).unwrap();
    let mut put = putting(&at_b, 2);
    network.settle();
    at_c.close().unwrap();
    network.settle();
    assert!(put.look().unwrap().unwrap_err().is_closed());
    assert_eq!(take(&network, &at_c), 1);
    let mut stream = at_b.stream();
    assert!(step(&mut stream).is_none());
    network.settle();
    assert!(step(&mut stream).unwrap().is_none());
    drop((put, stream, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn a_future_that_is_dropped_cancels_its_request() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    drop(taking(&at_b));
    network.settle();
    at_a.put(1).unwrap();
    assert_eq!(at_a.snapshot().unwrap(), [1]);
    // The value is on its way, and the taker does not want it any more.
    let taken = taking(&at_c);
    network.deliver_all();
    network.settle();
    assert_eq!(at_a.snapshot().unwrap(), [] as [u64; 0]);
    drop(taken);
    network.settle();
    assert_eq!(at_a.take().unwrap(), 1);
    drop((at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}
