//! Letters that no honest process sends.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::{Incarnation, Peer};

use super::functions::{HALF, TELLING, half, pending};
use super::network::{Network, TOLD, id, wait_until_told};
use crate::hub::post::Letter;
use crate::remote::argument::Argument;
use crate::remote::calls::CallId;
use crate::remote::function::Wants;
use crate::remote::message::{CALLS, CallMessage, Fault};
use crate::testing::wait_until;

fn letter(head: Vec<u8>, body: Vec<u8>) -> Letter {
    Letter {
        service: CALLS,
        class: Class::Ordered,
        stream: 0,
        head: head.into(),
        body: body.into(),
    }
}

#[test]
fn jrem_20_arguments_that_cannot_be_decoded_are_the_callers_error_and_the_link_survives() {
    let (network, processes) = Network::of(2);
    let call = CallMessage::Call {
        call: CallId(77),
        function: HALF.entry().id(),
        wants: Wants::Value,
        name: None,
        parcels: Vec::new(),
    };
    network.forge(processes[0].peer, 2, call.letter(Bytes::from_static(&[0xff; 3])));
    assert_eq!(processes[0].runtime.call(half::remote(8)).wait().unwrap(), 4);
    let sent = || network.sent().iter().filter(|(from, ..)| *from == 2).count();
    wait_until("two answers", || sent() >= 2);
    assert_eq!(processes[1].runtime.remote().open_calls(), (0, 0));
}

#[test]
fn an_answer_that_nobody_asked_for_is_ignored() {
    let (network, processes) = Network::of(3);
    let call = processes[0]
        .runtime
        .call(pending::remote(800, 801).on_process(id(2)));
    wait_until_told(800);
    let value = || {
        CallMessage::Value {
            call: CallId(1),
            parcels: Vec::new(),
        }
        .letter(Bytes::new())
    };
    let other_life = Peer {
        incarnation: Incarnation(2),
        ..processes[1].peer
    };
    network.forge(processes[2].peer, 1, value());
    network.forge(other_life, 1, value());
    let later = CallMessage::Fault { call: CallId(9) };
    network.forge(
        processes[1].peer,
        1,
        later.letter(Bytes::from_static(b"no fault")),
    );
    let answer = half::remote(8).on_process(id(3));
    assert_eq!(processes[0].runtime.call(answer).wait().unwrap(), 4);
    assert_eq!(processes[0].runtime.remote().open_calls(), (1, 0));
    drop(call);
    wait_until_told(801);
}

#[test]
fn a_call_that_comes_twice_runs_once_while_it_runs() {
    let (network, processes) = Network::of(2);
    let call = CallMessage::Call {
        call: CallId(5),
        function: super::functions::PENDING.entry().id(),
        wants: Wants::Value,
        name: None,
        parcels: Vec::new(),
    };
    let body = || super::functions::PENDING.entry().encode(&arguments()).unwrap().0;
    network.forge(processes[0].peer, 2, call.letter(body()));
    network.forge(processes[0].peer, 2, call.letter(body()));
    wait_until_told(810);
    assert_eq!(processes[0].runtime.call(half::remote(8)).wait().unwrap(), 4);
    let begun = TOLD
        .get()
        .unwrap()
        .lock()
        .iter()
        .filter(|mark| **mark == 810)
        .count();
    assert_eq!(begun, 1);
    assert!(TELLING.entry().path.ends_with("telling"));
}

fn arguments() -> crate::actor::arguments::Arguments {
    crate::actor::arguments::Arguments::local((Argument::Value(810_u64), Argument::Value(811_u64)))
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_nothing(head in proptest::collection::vec(any::<u8>(), 0..40), body in proptest::collection::vec(any::<u8>(), 0..40)) {
        let letter = letter(head, body.clone());
        if let Some(message) = CallMessage::of(&letter) {
            prop_assert_eq!(CallMessage::of(&message.letter(Bytes::new())), Some(message));
        }
        let fault = Fault::decode(&body);
        prop_assert_eq!(Fault::decode(&fault.encode()), fault);
    }
}

#[test]
fn a_process_outlives_any_letters() {
    let (network, processes) = Network::of(2);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let bytes = proptest::collection::vec(0_u8..8, 0..24);
    for _ in 0..2_000 {
        let head = bytes.new_tree(&mut runner).unwrap().current();
        let body = bytes.new_tree(&mut runner).unwrap().current();
        network.forge(processes[0].peer, 2, letter(head, body));
    }
    assert_eq!(processes[0].runtime.call(half::remote(8)).wait().unwrap(), 4);
}
