//! How hosts stop, go on and end.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use selvedge_test_hosts::{Host, SocketState};

use crate::support::{hosts, linked, pidfds, wait_for_ends};

/// The number of connections of a host that neither side has ended.
fn established(host: &Host) -> usize {
    let sockets = host.sockets().unwrap();
    sockets
        .iter()
        .filter(|socket| socket.state == SocketState::Established)
        .count()
}

#[test]
fn a_frozen_host_does_nothing_and_goes_on_when_it_thaws() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, mut listener) = linked(a, b);
    b.freeze().unwrap();
    listener.process.wait_for_stop().unwrap();
    let states = b.processes().unwrap();
    let stopped = states.iter().filter(|process| process.state == 'T').count();
    assert_eq!((states.len(), stopped), (2, 1), "all but the init: {states:?}");
    let before = hosts.traffic(a, b).bytes;
    dialer.tell("send 5 100");
    listener.tell("await 5");
    // Its kernel takes the bytes all the same.
    hosts
        .wait_for(a, b, |traffic| traffic.bytes > before + 500)
        .unwrap();
    assert_eq!(b.processes().unwrap().last().unwrap().state, 'T');
    b.thaw().unwrap();
    listener.expect("have 5");
}

#[test]
fn a_killed_hosts_kernel_says_goodbye() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, listener) = linked(a, b);
    b.kill().unwrap();
    assert_eq!(listener.process.wait().unwrap().code(), None, "it was killed");
    let end = dialer.hear();
    assert!(end.starts_with("ended"), "{end}");
    assert_eq!(b.processes().unwrap(), []);
    let refused = b.spawn(Command::new("true")).unwrap_err();
    assert_eq!(refused.to_string(), "the host is dead");
    assert!(b.freeze().is_err());
    b.kill().unwrap();
}

#[test]
fn a_host_without_power_says_nothing() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (mut dialer, _listener) = linked(a, b);
    b.power_off().unwrap();
    let before = hosts.traffic(b, a);
    // What its kernel has to say about the dead process meets the cut.
    hosts.wait_for(b, a, |traffic| traffic.cut > 0).unwrap();
    assert_eq!(hosts.traffic(b, a).packets, before.packets);
    // The other side speaks to nobody, and does not know.
    dialer.tell("send 1 100");
    hosts.wait_for(a, b, |traffic| traffic.cut > 1).unwrap();
    assert_eq!(established(a), 1);
}

#[test]
fn a_killed_process_ends_alone() {
    let Some(hosts) = hosts(1) else { return };
    let host = hosts.host(0);
    let sleeper = || {
        let mut command = Command::new("sleep");
        command.arg("infinity").stdin(Stdio::null());
        host.spawn(command).unwrap()
    };
    let (one, other) = (sleeper(), sleeper());
    one.kill();
    assert_eq!(one.wait().unwrap().code(), None);
    assert_eq!(one.wait().unwrap().code(), None, "the exit is told again");
    assert_eq!(host.processes().unwrap().len(), 2);
    drop(other);
    assert_eq!(
        host.processes().unwrap().len(),
        2,
        "a process outlives its handle"
    );
}

/// The pid outside of hosts of the only process with this name that is in the pid namespace of another.
fn pid_of(name: &str, neighbour: u32) -> Option<u32> {
    let namespace = |pid| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let wanted = namespace(neighbour)?;
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid| {
        let its_name = fs::read_to_string(format!("/proc/{pid}/comm"));
        namespace(*pid).as_ref() == Some(&wanted) && its_name.is_ok_and(|its| its.trim() == name)
    })
}

#[test]
fn orphans_are_reaped() {
    let Some(hosts) = hosts(1) else { return };
    let host = hosts.host(0);
    let mut parent = Command::new("sh");
    // The orphan reads until its input ends, which it has from its parent.
    parent.args(["-c", "exec 3<&0; cat <&3 & exec 3<&-; sleep infinity"]);
    parent.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = host.spawn(parent).unwrap();
    let mut input = parent.stdin.take().unwrap();
    input.write_all(b"?").unwrap();
    // It runs, since it answers.
    let mut answer = [0];
    parent.stdout.take().unwrap().read_exact(&mut answer).unwrap();
    let orphan = pidfds(&[pid_of("cat", parent.pid()).unwrap()]);
    parent.kill();
    parent.wait().unwrap();
    drop(input);
    wait_for_ends(orphan);
    let left = host.processes().unwrap();
    assert!(left.iter().all(|process| process.state != 'Z'), "{left:?}");
}
