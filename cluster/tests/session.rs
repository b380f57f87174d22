//! Sessions over links that lose frames.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_cluster::session::{Outcome, Output, Outputs, Packet, Session, SessionSettings};

fn peer(number: u32) -> Peer {
    Peer {
        process: ProcessId::new(number).unwrap(),
        incarnation: Incarnation(1),
    }
}

fn session(local: u32, remote: u32) -> Session<&'static str> {
    let mut session = Session::new(peer(local), peer(remote), SessionSettings::default());
    assert_eq!(session.connected(Duration::ZERO, peer(remote)).unwrap()[..], []);
    session
}

fn transmitted(outputs: Outputs<&'static str>) -> Vec<Packet<&'static str>> {
    let packet = |output| match output {
        Output::Transmit(packet) => Some(packet),
        Output::Deliver(_) | Output::Settled(..) => None,
    };
    outputs.into_iter().filter_map(packet).collect()
}

#[test]
fn rref_40_a_call_whose_frame_was_lost_is_sent_again_and_delivered_once() {
    let (mut here, mut there) = (session(1, 2), session(2, 1));
    let (sequence, outputs) = here.send(Duration::ZERO, "call", 4).unwrap();
    let lost = transmitted(outputs);
    let due = here.deadline().unwrap();
    let again = transmitted(here.tick(due));
    assert_eq!(again, lost, "the frame again, under its number");
    let delivered = there.received(due, again[0].clone(), 4).unwrap();
    assert_eq!(delivered[..], [Output::Deliver("call")]);
    // The first copy turns up, and another one.
    for packet in [&lost[0], &again[0]] {
        assert_eq!(there.received(due, packet.clone(), 4).unwrap()[..], []);
    }
    let answer = transmitted(there.tick(due + Duration::from_secs(1)));
    let settled = here.received(due, answer[0].clone(), 0).unwrap();
    assert_eq!(
        settled[..],
        [Output::Settled(sequence..=sequence, Outcome::Delivered)]
    );
}
