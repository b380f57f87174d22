//! Sessions over links that lose frames.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::{Session, SessionSettings};

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

fn session(local: u32, remote: u32) -> Session<&'static str> {
    let mut session = Session::new(peer(local), peer(remote), SessionSettings::default());
    assert_eq!(session.connected(Duration::ZERO, peer(remote)).unwrap()[..], []);
    session
}

#[test]
fn rref_40_a_call_whose_frame_was_lost_is_sent_again_and_delivered_once() {
    let (mut here, mut there) = (session(1, 2), session(2, 1));
    let (sequence, lost) = here.send(Duration::ZERO, "call", 4).unwrap();
    let lost = lost.unwrap();
    let due = here.deadline().unwrap();
    let again = here.tick(due);
    assert_eq!(
        (again.len(), &again[0]),
        (1, &lost),
        "the frame again, under its number"
    );
    let delivered = there.received(due, again[0].clone(), 4).unwrap();
    assert_eq!(delivered.messages[..], ["call"]);
    // The first copy turns up, and another one.
    for packet in [&lost, &again[0]] {
        assert!(
            there
                .received(due, packet.clone(), 4)
                .unwrap()
                .messages
                .is_empty()
        );
    }
    let answer = there.tick(due + Duration::from_secs(1));
    let settled = here.received(due, answer[0].clone(), 0).unwrap();
    assert_eq!(
        (settled.settled, settled.messages.len()),
        (sequence..=sequence, 0)
    );
}
