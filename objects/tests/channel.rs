//! The rules of remote channels, one by one, over links that deliver at once.
#![allow(missing_docs, clippy::unwrap_used)]

mod interpreter;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::channel::{
    Answer, ChannelError, ChannelHome, ChannelSettings, ChannelUser, NotPut, Outcome, Reply, Request,
};

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

/// A channel at process 1, and any number of users.
struct Channel<V> {
    home: ChannelHome<V>,
    users: BTreeMap<u32, ChannelUser<V>>,
    /// What has ended, in order: the user, the number of its request, and how.
    ended: Vec<(u32, u64, Outcome<V>)>,
}

impl<V: Clone + PartialEq + std::fmt::Debug> Channel<V> {
    fn new(capacity: usize) -> Self {
        Channel {
            home: ChannelHome::new(ChannelSettings::with_capacity(capacity)),
            users: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn user(&mut self, number: u32) -> &mut ChannelUser<V> {
        let user = || ChannelUser::new(peer(1));
        self.users.entry(number).or_insert_with(user)
    }

    fn ask(&mut self, from: u32, request: Request<V>) {
        let replies = self.home.request(peer(from), request);
        self.answer(replies);
    }

    fn answer(&mut self, replies: Vec<Reply<V>>) {
        for Reply { to, number, answer } in replies {
            let to = to.process.number();
            let outcome = self.user(to).answered(number, answer);
            self.ended.extend(outcome.map(|outcome| (to, number, outcome)));
        }
    }

    fn put(&mut self, at: u32, value: V) -> u64 {
        let (number, request) = self.user(at).put(value).unwrap();
        self.ask(at, request);
        number
    }

    fn take(&mut self, at: u32) -> u64 {
        let (number, request) = self.user(at).take().unwrap();
        self.ask(at, request);
        number
    }

    fn peek(&mut self, at: u32) -> u64 {
        let (number, request) = self.user(at).peek().unwrap();
        self.ask(at, request);
        number
    }

    fn acknowledge(&mut self, at: u32, number: u64) {
        let request = self.user(at).acknowledge(number).unwrap();
        self.ask(at, request);
    }

    fn cancel(&mut self, at: u32, number: u64) {
        let request = self.user(at).cancel(number).unwrap();
        self.ask(at, request);
    }

    fn close(&mut self, at: u32) {
        let request = self.user(at).close().unwrap();
        self.ask(at, request);
    }

    fn end(&self, at: u32, number: u64) -> Option<&Outcome<V>> {
        let ended = self.ended.iter().find(|it| (it.0, it.1) == (at, number));
        ended.map(|(_, _, outcome)| outcome)
    }
}

const CLOSED: Outcome<u32> = Outcome::Failed(ChannelError::Closed(HOME));
const HOME: Peer = ProcessId::HEAD.first_life();

#[test]
fn jchan_04_a_channel_has_one_slot_unless_asked_otherwise() {
    assert_eq!(ChannelSettings::default().capacity, 1);
}

#[test]
fn jchan_05_all_operations_are_requests_to_the_home() {
    let mut channel = Channel::new(1);
    let (is_ready, request) = channel.user(2).is_ready().unwrap();
    channel.ask(2, request);
    assert_eq!(channel.end(2, is_ready), Some(&Outcome::Ready(false)));
    let (ready, request) = channel.user(2).ready().unwrap();
    channel.ask(2, request);
    assert_eq!(channel.end(2, ready), None, "it waits");
    let put = channel.put(3, 7);
    assert_eq!(channel.end(3, put), Some(&Outcome::Stored));
    assert_eq!(channel.end(2, ready), Some(&Outcome::Ready(true)));
    let peek = channel.peek(4);
    assert_eq!(channel.end(4, peek), Some(&Outcome::Value(7)));
    let take = channel.take(5);
    assert_eq!(channel.end(5, take), Some(&Outcome::Value(7)));
}

#[test]
fn jchan_08_a_snapshot_is_a_copy() {
    let mut channel = Channel::new(3);
    (1..=2).for_each(|value| {
        channel.put(2, value);
    });
    let mut copy = channel.home.clone();
    copy.close();
    channel.take(2);
    assert_eq!((channel.home.snapshot(), copy.snapshot()), (vec![2], vec![1, 2]));
    assert!(copy.is_closed() && !channel.home.is_closed());
}

#[test]
fn jchan_10_any_process_may_put_and_take() {
    let mut channel = Channel::new(4);
    (1..=4).for_each(|at| {
        channel.put(at, at);
    });
    let taken = [4, 3, 2, 1].map(|at| channel.take(at));
    let ends: Vec<_> = [4, 3, 2, 1]
        .into_iter()
        .zip(taken)
        .map(|(at, it)| channel.end(at, it))
        .collect();
    let expected: Vec<_> = (1..=4).map(Outcome::Value).collect();
    assert_eq!(ends, expected.iter().map(Some).collect::<Vec<_>>());
}

#[test]
fn jchan_11_put_waits_while_full_and_take_while_empty_in_their_order() {
    let mut channel = Channel::new(1);
    let takes = [channel.take(2), channel.take(3)];
    assert!(channel.ended.is_empty());
    let puts: Vec<_> = (1..=4).map(|value| channel.put(4, value)).collect();
    assert_eq!(
        channel.end(2, takes[0]),
        Some(&Outcome::Value(1)),
        "the first to wait"
    );
    assert_eq!(channel.end(3, takes[1]), Some(&Outcome::Value(2)));
    assert_eq!(channel.end(4, puts[2]), Some(&Outcome::Stored));
    assert_eq!(channel.end(4, puts[3]), None, "the channel is full");
    channel.take(2);
    assert_eq!(channel.end(4, puts[3]), Some(&Outcome::Stored));
}

#[test]
fn jchan_12_a_peek_waits_and_removes_nothing() {
    let mut channel = Channel::new(1);
    let peeks = [channel.peek(2), channel.peek(3)];
    assert!(channel.ended.is_empty());
    channel.put(4, 9);
    assert_eq!(channel.end(2, peeks[0]), Some(&Outcome::Value(9)));
    assert_eq!(channel.end(3, peeks[1]), Some(&Outcome::Value(9)));
    assert_eq!(channel.home.snapshot(), [9]);
}

#[test]
fn jchan_13_a_closed_channel_drains_and_then_says_so() {
    let mut channel = Channel::new(1);
    channel.put(2, 1);
    let waits = channel.put(2, 2);
    channel.close(3);
    let refused = |value| {
        let reason = ChannelError::Closed(peer(1));
        Outcome::NotPut(NotPut { value, reason })
    };
    assert_eq!(channel.end(2, waits), Some(&refused(2)), "the value comes back");
    let late = channel.put(2, 3);
    assert_eq!(channel.end(2, late), Some(&refused(3)));
    let (first, requests) = channel.user(4).next(None).unwrap();
    requests.into_iter().for_each(|it| channel.ask(4, it));
    assert_eq!(channel.end(4, first), Some(&Outcome::Value(1)));
    let (second, requests) = channel.user(4).next(Some(first)).unwrap();
    requests.into_iter().for_each(|it| channel.ask(4, it));
    assert_eq!(channel.end(4, second), Some(&CLOSED), "the iteration ends");
    let text = ChannelError::Closed(peer(1)).to_string();
    assert!(text.starts_with("the channel at process 1 is closed"), "{text}");
}

#[test]
fn jchan_13_closing_wakes_all_who_take_and_peek() {
    let mut channel = Channel::new(1);
    let (take, peek) = (channel.take(2), channel.peek(3));
    channel.close(2);
    assert_eq!(
        (channel.end(2, take), channel.end(3, peek)),
        (Some(&CLOSED), Some(&CLOSED))
    );
    assert_eq!((channel.home.waiting(), channel.user(2).open()), (0, 0));
}

#[test]
fn jchan_14_an_unbuffered_put_is_confirmed_behind_the_takers_value() {
    let mut channel = Channel::new(0);
    let put = channel.put(2, 5);
    let peek = channel.peek(4);
    assert_eq!((channel.end(2, put), channel.home.len()), (None, 0));
    assert_eq!(
        channel.end(4, peek),
        Some(&Outcome::Value(5)),
        "the value that is offered"
    );
    let (_, request) = channel.user(3).take().unwrap();
    let answers: Vec<_> = channel
        .home
        .request(peer(3), request)
        .into_iter()
        .map(|it| it.answer)
        .collect();
    assert_eq!(answers, [Answer::Value(5), Answer::Stored]);
}

/// Twelve jobs and four workers, over two channels; a worker dies with a job.
#[test]
fn jchan_15_every_job_is_done_once_and_the_results_come_as_they_end() {
    let (mut jobs, mut results) = (Channel::new(32), Channel::new(32));
    (1..=12).for_each(|id| {
        jobs.put(1, id);
    });
    let workers = [2, 3, 4, 5];
    let mut has: BTreeMap<u32, u64> = workers.iter().map(|at| (*at, jobs.take(*at))).collect();
    let dead = 3;
    let replies = jobs.home.dead(peer(dead));
    jobs.answer(replies);
    has.remove(&dead);
    jobs.close(1);
    // The slowest worker first: results come in another order than jobs went.
    let mut turns = [5, 4, 5, 2].into_iter().cycle();
    while !has.is_empty() {
        let at = turns.next().unwrap();
        let Some(number) = has.get(&at).copied() else {
            continue;
        };
        match jobs.end(at, number).cloned() {
            Some(Outcome::Value(id)) => {
                results.put(at, (id, at));
                let (number, requests) = jobs.user(at).next(Some(number)).unwrap();
                requests.into_iter().for_each(|it| jobs.ask(at, it));
                has.insert(at, number);
            }
            Some(outcome) => {
                assert_eq!(outcome, CLOSED);
                has.remove(&at);
            }
            None => {} // others have the last jobs
        }
    }
    let done = results.home.snapshot();
    let ids: BTreeSet<_> = done.iter().map(|(id, _)| *id).collect();
    assert_eq!((done.len(), ids), (12, (1..=12).collect()));
    assert!(!done.is_sorted(), "by the time at which they end: {done:?}");
    assert_eq!(jobs.home.len() + jobs.home.on_their_way(), 0);
}

#[test]
fn jchan_16_what_a_dead_taker_has_not_acknowledged_goes_to_the_front() {
    let mut channel = Channel::new(8);
    (1..=5).for_each(|value| {
        channel.put(2, value);
    });
    let takes = [channel.take(3), channel.take(3), channel.take(3)];
    channel.acknowledge(3, takes[1]);
    let replies = channel.home.dead(peer(3));
    channel.answer(replies);
    assert_eq!(channel.home.snapshot(), [1, 3, 4, 5]);
    assert_eq!(channel.home.on_their_way(), 0);
}

#[test]
fn jchan_16_a_value_that_could_not_be_sent_goes_to_the_front() {
    let mut channel = Channel::new(8);
    channel.put(2, 1);
    channel.put(2, 2);
    let (number, request) = channel.user(3).take().unwrap();
    channel.home.request(peer(3), request);
    assert_eq!(channel.home.not_sent(peer(3), number), []);
    assert_eq!(channel.home.snapshot(), [1, 2]);
}

#[test]
fn jchan_17_ready_may_be_stale_when_it_is_read() {
    let mut channel = Channel::new(1);
    channel.put(2, 1);
    let (ready, request) = channel.user(3).is_ready().unwrap();
    channel.ask(3, request);
    channel.take(4);
    assert_eq!(channel.end(3, ready), Some(&Outcome::Ready(true)));
    let take = channel.take(3);
    assert_eq!(channel.end(3, take), None, "another process was faster");
}

#[test]
fn a_cancelled_take_gives_its_value_back_although_the_answer_is_on_its_way() {
    let mut channel = Channel::new(2);
    channel.put(2, 1);
    channel.put(2, 2);
    let (number, request) = channel.user(3).take().unwrap();
    let on_its_way = channel.home.request(peer(3), request);
    let cancel = channel.user(3).cancel(number).unwrap();
    channel.answer(on_its_way);
    assert_eq!(channel.end(3, number), None, "nobody wants it");
    channel.ask(3, cancel);
    assert_eq!(channel.home.snapshot(), [1, 2]);
    let next = channel.take(3);
    assert_eq!(channel.end(3, next), Some(&Outcome::Value(1)));
    channel.cancel(3, next);
    assert_eq!(channel.home.snapshot(), [1, 2], "given back after it had arrived");
}

#[test]
fn the_homes_death_ends_every_request_and_gives_the_values_back() {
    let mut user = ChannelUser::new(peer(1));
    let (put, _) = user.put("job").unwrap();
    let (take, _) = user.take().unwrap();
    let reason = ChannelError::HomeLost(peer(1));
    let value = "job";
    let ends = [
        (put, Outcome::NotPut(NotPut { value, reason })),
        (take, Outcome::Failed(reason)),
    ];
    assert_eq!(user.lost(), ends);
    assert_eq!(user.open(), 0);
    assert_eq!(user.put("job"), Err(NotPut { value, reason }));
    assert_eq!(user.take(), Err(reason));
    assert!(reason.to_string().contains("make another channel"), "{reason}");
}

#[test]
fn a_process_may_have_only_so_many_requests_open() {
    let settings = ChannelSettings {
        capacity: 1,
        requests_max: 2,
    };
    let mut channel = Channel::<u32>::new(1);
    channel.home = ChannelHome::new(settings);
    let takes = [channel.take(2), channel.take(2), channel.take(2)];
    let (home, limit) = (peer(1), 2);
    let error = ChannelError::TooMany { home, limit };
    assert_eq!(channel.end(2, takes[2]), Some(&Outcome::Failed(error)));
    let other = channel.take(3);
    channel.cancel(2, takes[0]);
    channel.put(4, 1);
    assert_eq!(channel.end(2, takes[1]), Some(&Outcome::Value(1)));
    assert_eq!(channel.end(3, other), None, "its turn is later");
}
