//! Links of `selvedge-cluster` between hosts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use selvedge_test_hosts::SocketState;

use crate::support::{Talker, hosts, linked};

/// The number that the kernel has for a socket that waits for an answer to its first packet.
const SYN_SENT: SocketState = SocketState::Other(2);

#[test]
fn two_hosts_authenticate_and_exchange_frames() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    dialer.tell("send 100 10000");
    listener.tell("send 50 20000");
    listener.tell("await 100");
    dialer.tell("await 50");
    listener.expect("have 100");
    dialer.expect("have 50");
    for (from, to) in [(a, b), (b, a)] {
        let traffic = hosts.traffic(from, to);
        assert!(traffic.bytes > 1_000_000, "{traffic:?}");
        assert_eq!(
            (traffic.cut, traffic.lost, traffic.crowded_out, traffic.refused),
            (0, 0, 0, 0)
        );
    }
}

#[test]
fn a_connection_that_nobody_answers_is_asked_for_again_by_another_attempt_and_made_after_the_cut() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let mut listener = Talker::start(b, &["listen", &b.address().to_string()]);
    let line = listener.hear();
    let address = line.strip_prefix("at ").expect(&line);
    hosts.cut(a, b);
    let mut dialer = Talker::start(a, &["dial", address]);
    let (mut attempts, limit) = (BTreeSet::new(), Instant::now() + Duration::from_secs(60));
    while attempts.len() < 2 {
        assert!(Instant::now() < limit, "{attempts:?}");
        let sockets = a.sockets().unwrap().into_iter();
        let asking = sockets.filter(|socket| socket.state == SYN_SENT);
        attempts.extend(asking.map(|socket| socket.local));
    }
    hosts.heal(a, b);
    listener.expect("linked");
    dialer.expect("linked");
}

#[test]
fn a_cut_is_silence_and_heals_without_a_lost_byte() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    dialer.tell("send 10 1000");
    listener.tell("await 10");
    listener.expect("have 10");

    hosts.cut(a, b);
    let before = (hosts.traffic(a, b).packets, hosts.traffic(b, a).packets);
    dialer.tell("send 10 1000");
    listener.tell("send 10 1000");
    hosts.wait_for(a, b, |traffic| traffic.cut >= 3).unwrap();
    hosts.wait_for(b, a, |traffic| traffic.cut >= 3).unwrap();
    assert_eq!((hosts.traffic(a, b).packets, hosts.traffic(b, a).packets), before);

    hosts.heal(a, b);
    // Had a link ended meanwhile, the next line would say so.
    listener.tell("await 20");
    dialer.tell("await 10");
    listener.expect("have 20");
    dialer.expect("have 10");
}

#[test]
fn a_cut_of_one_direction_leaves_the_other() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    hosts.cut_one_way(a, b);
    let before = hosts.traffic(a, b).packets;
    // The frames arrive, though nobody can acknowledge them.
    listener.tell("send 1 1000");
    dialer.tell("await 1");
    dialer.expect("have 1");
    hosts.wait_for(a, b, |traffic| traffic.cut > 0).unwrap();
    assert_eq!(hosts.traffic(a, b).packets, before);
    assert_eq!(hosts.traffic(b, a).cut, 0);
    hosts.heal_all();
    dialer.tell("send 1 1000");
    listener.tell("await 1");
    listener.expect("have 1");
}

#[test]
fn a_cut_between_two_hosts_leaves_a_third() {
    let Some(hosts) = hosts(3) else { return };
    let (a, b, c) = (hosts.host(0), hosts.host(1), hosts.host(2));
    let (mut to_b, mut b_end) = linked(a, b);
    let (mut to_c, mut c_end) = linked(a, c);
    hosts.cut(a, b);
    to_b.tell("send 1 10");
    b_end.tell("await 1");
    to_c.tell("send 1 10");
    c_end.tell("await 1");
    c_end.expect("have 1");
    hosts.wait_for(a, b, |traffic| traffic.cut > 0).unwrap();
    hosts.heal_all();
    b_end.expect("have 1");
}
