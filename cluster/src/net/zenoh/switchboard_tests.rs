#![allow(clippy::unwrap_used)] // a test may panic

use super::super::packet::{FRAGMENT_BYTES, FlowPacket, Fragment, Receipt};
use super::super::stream::Next;
use super::*;

const ME: NodeId = NodeId(1);

fn place(node: u128, number: u64) -> StreamPlace {
    let node = NodeId(node);
    StreamPlace { node, number }
}

fn packet(from: StreamPlace, to: u64, body: PacketBody<'_>) -> Vec<u8> {
    RelayPacket { from, to, body }.encode()
}

/// A packet as an honest peer says it that has received nothing.
fn flow(bytes: usize) -> PacketBody<'static> {
    let receipt = Receipt {
        expected: 0,
        beyond: 0,
        limit: 64,
        is_deaf: false,
    };
    let fragment = Some(Fragment {
        number: 0,
        is_last: false,
        bytes: vec![7; bytes].into(),
    });
    let asks = false;
    PacketBody::Flow(FlowPacket {
        receipt,
        asks,
        fragment,
    })
}

/// Has nobody use a stream any more, and does what its task does. Returns whether that ends.
fn abandon(switchboard: &Switchboard, stream: &RoutedStream) -> bool {
    stream.refuse();
    stream.end();
    let is_over = matches!(stream.turn().1, Next::End);
    if is_over {
        switchboard.remove(stream);
    }
    is_over
}

fn sizes(switchboard: &Switchboard) -> [usize; 3] {
    let lines = switchboard.lines();
    [lines.streams.len(), lines.accepted.len(), lines.refusals.len()]
}

/// Takes the chores that are there, and returns the watches among them.
fn watches(switchboard: &Switchboard) -> Vec<TokenWatch> {
    std::iter::from_fn(|| switchboard.lines().watches.next()).collect()
}

#[test]
fn dialers_that_say_nothing_more_leave_nothing() {
    let switchboard = Switchboard::new(ME);
    let (number, mut dialers) = switchboard.listen().unwrap();
    for stranger in 0..100_000 {
        switchboard.receive(&packet(place(stranger + 2, 7), number, PacketBody::Open));
        // A listener takes them when there are as many as it has room for.
        while dialers.len() == DIALERS_MAX
            && let Ok(dialer) = dialers.try_recv()
        {
            let stream = switchboard.accept(dialer).unwrap().unwrap();
            assert!(abandon(&switchboard, &stream), "it waits for a stranger");
        }
    }
    assert_eq!(sizes(&switchboard), [0, 0, 0]);
    assert_eq!(watches(&switchboard), []);
    assert_eq!(switchboard.lines().doubts.look_at(), None);
}

#[test]
fn a_dialer_that_asks_twice_has_one_stream_and_is_refused_once_that_has_ended() {
    let switchboard = Switchboard::new(ME);
    let (number, mut dialers) = switchboard.listen().unwrap();
    let dialer = place(2, 7);
    let open = packet(dialer, number, PacketBody::Open);
    // Both packets have arrived before the listener looks.
    switchboard.receive(&open);
    switchboard.receive(&open);
    let stream = switchboard.accept(dialers.try_recv().unwrap()).unwrap().unwrap();
    assert!(abandon(&switchboard, &stream));
    assert!(switchboard.accept(dialers.try_recv().unwrap()).unwrap().is_none());
    assert_eq!(sizes(&switchboard), [0, 0, 0]);
    // A third one comes when the stream is over: the dialer waits for an answer, and gets one.
    switchboard.receive(&open);
    assert!(dialers.try_recv().is_err());
    assert_eq!(sizes(&switchboard), [0, 0, 1]);
    switchboard.receive(&packet(place(2, 8), number, PacketBody::Open));
    assert_eq!(dialers.try_recv(), Ok(place(2, 8)));
}

#[test]
fn streams_of_strangers_are_limited_and_those_that_nobody_uses_make_room() {
    let switchboard = Switchboard::new(ME);
    let streams: Vec<_> = (0..ACCEPTED_MAX as u64)
        .map(|number| {
            let stream = switchboard.accept(place(2, number)).unwrap().unwrap();
            // A peer that has spoken is waited for.
            switchboard.receive(&packet(place(2, number), stream.here.number, flow(1)));
            stream
        })
        .collect();
    assert!(switchboard.accept(place(3, 1)).unwrap().is_none());
    assert_eq!(sizes(&switchboard), [ACCEPTED_MAX, ACCEPTED_MAX, 0]);
    let (used, left) = streams.split_at(10);
    assert!(left.iter().all(|stream| !abandon(&switchboard, stream)));
    assert!(
        switchboard.accept(place(3, 1)).unwrap().is_none(),
        "the dialer asks again"
    );
    for stream in left {
        assert!(matches!(stream.turn().1, Next::End), "it is cut");
        switchboard.remove(stream);
    }
    assert!(switchboard.accept(place(3, 1)).unwrap().is_some());
    let is_used = |stream: &Arc<RoutedStream>| matches!(stream.turn().1, Next::Wait(_));
    assert!(used.iter().all(is_used));
}

#[test]
fn refusals_and_long_fragments_reach_a_stream_within_its_limits() {
    let switchboard = Switchboard::new(ME);
    let stream = switchboard.accept(place(2, 1)).unwrap().unwrap();
    let here = stream.here.number;
    for number in 0..10_000 {
        switchboard.receive(&packet(place(9, number), here, PacketBody::Refused));
        switchboard.receive(&packet(place(2, 1), here, flow(FRAGMENT_BYTES + 1)));
        switchboard.receive(&packet(place(9, number), 404, flow(0)));
    }
    assert_eq!(sizes(&switchboard), [1, 1, REFUSALS_MAX]);
    // None of it was a word of the peer, and the first that is one is heard.
    assert!(matches!(stream.turn().1, Next::Wait(_)));
    switchboard.receive(&packet(place(2, 1), here, PacketBody::Refused));
    assert!(matches!(stream.turn().1, Next::End));
}

#[test]
fn tokens_of_nodes_without_a_stream_are_not_kept() {
    let switchboard = Switchboard::new(ME);
    for node in 2..1000 {
        switchboard.appeared(NodeId(node));
    }
    let stream = switchboard.dial(place(7, 1)).unwrap();
    assert_eq!(watches(&switchboard), [TokenWatch::Begin(NodeId(7))]);
    assert!(
        switchboard.lines().doubts.look_at().is_some(),
        "nothing is known of it"
    );
    switchboard.appeared(NodeId(7));
    assert_eq!(switchboard.lines().doubts.look_at(), None);
    switchboard.remove(&stream);
    // Watched still, since another stream may begin.
    let again = switchboard.dial(place(7, 2)).unwrap();
    assert_eq!(watches(&switchboard), []);
    assert_eq!(switchboard.lines().doubts.look_at(), None);
    switchboard.remove(&again);
    // Until others have taken its place.
    let mut ended = false;
    for other in 100..200 {
        let stream = switchboard.dial(place(other, 1)).unwrap();
        switchboard.appeared(NodeId(other));
        for watch in watches(&switchboard) {
            if let TokenWatch::End(node) = watch {
                switchboard.lines().doubts.forget(node);
                ended |= node == NodeId(7);
            }
        }
        switchboard.remove(&stream);
    }
    assert!(ended);
    let later = switchboard.dial(place(7, 3)).unwrap();
    assert!(switchboard.lines().doubts.look_at().is_some());
    switchboard.remove(&later);
}
