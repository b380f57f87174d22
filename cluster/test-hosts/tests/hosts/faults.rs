//! Lines with faults.

use std::time::Duration;

use selvedge_test_hosts::Faults;

use crate::support::{hosts, linked, seed};

#[test]
fn loss_delay_overtaking_and_repetition_leave_the_stream_whole() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    hosts.faults(Faults {
        seed: seed(),
        loss: 0.2,
        repetition: 0.1,
        delay: Duration::from_millis(50),
        jitter: Duration::from_millis(20),
        ..Faults::default()
    });
    dialer.tell("send 100 1000");
    listener.tell("send 100 1000");
    dialer.tell("await 100");
    listener.tell("await 100");
    dialer.expect("have 100");
    listener.expect("have 100");
    for (from, to) in [(a, b), (b, a)] {
        let traffic = hosts.traffic(from, to);
        println!("{traffic:?}");
        assert!(
            traffic.lost > 0 && traffic.repeated > 0 && traffic.overtaken > 0,
            "{traffic:?}"
        );
    }
}

#[test]
fn the_kernels_counters_agree_with_those_of_the_switch() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    dialer.tell("send 50 10000");
    listener.tell("await 50");
    listener.expect("have 50");
    // After its end no process sends any more, and what its kernel says is cut before it is counted as arrived.
    hosts.cut(a, b);
    let (there, back) = (hosts.traffic(a, b), hosts.traffic(b, a));
    assert_eq!(a.interface_bytes().unwrap().received, back.bytes);
    assert_eq!(b.interface_bytes().unwrap().received, there.bytes);
    assert!(a.interface_bytes().unwrap().sent >= there.bytes);
    assert!(there.bytes > 500_000, "{there:?}");
}

#[test]
fn a_narrow_line_is_slow_and_whole() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    hosts.faults_one_way(
        a,
        b,
        Faults {
            bytes_per_second: Some(200_000),
            ..Faults::default()
        },
    );
    let begun = std::time::Instant::now();
    let before = hosts.traffic(a, b).bytes;
    dialer.tell("send 10 10000");
    listener.tell("await 10");
    listener.expect("have 10");
    let bytes = hosts.traffic(a, b).bytes - before;
    // A packet that was sent before the line became narrow may be among them.
    let least = Duration::from_micros((bytes - 1500) * 1_000_000 / 200_000);
    assert!(begun.elapsed() >= least, "{bytes} bytes in {:?}", begun.elapsed());
}
