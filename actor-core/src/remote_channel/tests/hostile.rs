//! Letters of a process that keeps to nothing.

use bytes::Bytes;
use selvedge_cluster::frame::Class;
use selvedge_objects::channel::{Answer, CHANNELS, Request, Wish};
use selvedge_objects::refs::{Parcel, RefId};

use super::super::message::ChannelMessage;
use super::*;
use crate::hub::post::Letter;

fn asked(channel: RefId, number: u64, wish: Wish<Vec<Parcel>>) -> Letter {
    let request = Request { number, wish };
    ChannelMessage::Asked { channel, request }.letter(channel, Bytes::new())
}

#[test]
fn a_letter_that_cannot_be_read_cuts_its_sender_off() {
    let (network, a, b, _) = three();
    let garbage = Letter::new(CHANNELS, Class::Ordered, &[255_u8; 20], Bytes::new());
    a.channels.received(b.peer, garbage);
    let mut trailing = asked(a.channel::<u64>(1).id(), 1, Wish::Take);
    trailing.head = [&trailing.head[..], &[0]].concat().into();
    a.channels.received(b.peer, trailing);
    assert_eq!(network.cuts().len(), 2, "{:?}", network.cuts());
    assert_empty(&network, &[&a, &b]);
}

#[test]
fn a_channel_is_made_only_under_the_name_of_its_maker_and_once() {
    let (network, a, b, c) = three();
    let channel: RemoteChannel<u64> = a.channel(1);
    channel.put(1).unwrap();
    let make = |parcel| {
        ChannelMessage::Make {
            parcel,
            capacity: u64::MAX,
        }
        .letter(channel.id(), Bytes::new())
    };
    let taken = Parcel::Keep { id: channel.id() };
    a.channels.received(b.peer, make(taken));
    let given = Parcel::Given {
        id: channel.id(),
        fork: 1,
    };
    a.channels.received(b.peer, make(given));
    assert_eq!(network.cuts().len(), 2, "{:?}", network.cuts());
    assert_eq!(channel.take().unwrap(), 1);
    // Twice under one name: the second has no effect.
    let made: RemoteChannel<u64> = c.channel_at(&a, 1);
    network.settle();
    put(&network, &made, 2);
    a.channels.received(c.peer, make(Parcel::Keep { id: made.id() }));
    assert_eq!(take(&network, &made), 2);
    drop((channel, made));
    network.settle();
    assert_eq!(a.channels.figures(), (0, 0, 0));
}

#[test]
fn requests_to_channels_that_are_none_are_refused() {
    let (network, a, b, c) = three();
    let value: Ref<u64> = a.put(1);
    let other: RemoteChannel<u64> = b.channel(1);
    let never = RefId {
        number: 99,
        ..value.id()
    };
    for (at, channel) in [value.id(), other.id(), never].into_iter().enumerate() {
        let number = at as u64;
        let before = network.letters();
        a.channels.received(c.peer, asked(channel, number, Wish::Take));
        assert_eq!(network.letters(), before + 1, "{channel} is no channel of A");
        for wish in [Wish::Acknowledge, Wish::Cancel, Wish::Close] {
            a.channels.received(c.peer, asked(channel, number, wish));
        }
        assert_eq!(network.letters(), before + 1);
    }
    drop((value, other));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn answers_that_nobody_waits_for_have_no_effect() {
    let (network, a, b, c) = three();
    let [at_a, at_b, at_c] = shared(&network, [&a, &b, &c], 1);
    let mut put = putting(&at_b, 1_u64);
    let answers = [Answer::Value(Vec::new()), Answer::Stored, Answer::Closed];
    for (number, answer) in [1, 2, 9].into_iter().zip(answers) {
        let letter = ChannelMessage::Answered {
            number,
            answer: Ok(answer),
        }
        .letter(at_a.id(), Bytes::new());
        b.channels.received(c.peer, letter);
    }
    assert!(put.look().is_none(), "C is not the home");
    network.settle();
    put.look().unwrap().unwrap();
    drop((put, at_a, at_b, at_c));
    assert_empty(&network, &[&a, &b, &c]);
}

#[test]
fn the_requests_of_a_process_that_wait_are_limited() {
    let (network, a, b, c) = three();
    network.hold(&a, &b);
    let channel: RemoteChannel<u64> = a.channel_at(&b, 1);
    a.give_channel(&channel, &c);
    network.settle();
    for number in 0..=1 << 16 {
        b.channels
            .received(c.peer, asked(channel.id(), number, Wish::Take));
    }
    assert_eq!(network.cuts().len(), 1, "{:?}", network.cuts());
    network.kill(&c);
    assert_eq!(b.channels.figures(), (0, 0, 0));
}
