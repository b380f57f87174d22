//! What separates hosts from each other and from this machine.

use std::process::{Command, Stdio};

use selvedge_test_hosts::{HostsError, SocketState};

use crate::support::{PEER, Talker, hosts, linked, output};

#[test]
fn a_host_has_a_name_and_processes_of_its_own() {
    let Some(hosts) = hosts(2) else { return };
    for host in hosts.all() {
        assert_eq!(output(host, "uname", &["-n"]).trim(), host.name());
        let processes = host.processes().unwrap();
        assert_eq!(
            processes.iter().map(|process| process.pid).collect::<Vec<_>>(),
            [1]
        );
        // Without an address of IPv6 its kernel sends nothing by itself.
        let of_v6 = output(host, "sh", &["-c", "cat /proc/net/if_inet6 || true"]);
        assert!(!of_v6.contains("tun0"), "{of_v6}");
    }
    let (a, b) = (hosts.host(0), hosts.host(1));
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped());
    let process = a.spawn(cat).unwrap();
    let found = a.processes().unwrap();
    let found = found.iter().find(|found| found.name == "cat").unwrap();
    assert_eq!(found.pid, process.pid_inside().unwrap());
    assert_ne!(found.pid, process.pid());
    assert!(b.processes().unwrap().iter().all(|found| found.name != "cat"));
}

#[test]
fn descriptors_of_a_process_on_another_host_cannot_be_reached() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped());
    let process = a.spawn(cat).unwrap();
    let folder = format!("/proc/{}/fd", process.pid_inside().unwrap());
    let list = format!("ls {folder}; test -e /proc/{}; echo $?", process.pid());
    let here = output(a, "ls", &[&folder]);
    assert!(here.starts_with("0\n1\n"), "{here}");
    // The host of the reader has neither this process nor one with that pid.
    let of_shell = "test \"$(readlink /proc/self/ns/pid)\" = \"$(readlink /proc/1/ns/pid)\"; echo $?";
    assert_eq!(output(b, "sh", &["-c", of_shell]), "0\n");
    let seen = output(b, "sh", &["-c", &list]);
    assert_eq!(seen.lines().last(), Some("1"), "{seen}");
}

#[test]
fn jnet_02_a_listener_on_a_host_is_one_socket_at_that_hosts_address() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let (_dialer, listener) = linked(a, b);
    let of = |state| {
        let sockets = b.sockets().unwrap();
        sockets
            .into_iter()
            .filter(|socket| socket.state == state)
            .collect::<Vec<_>>()
    };
    let listening = of(SocketState::Listen);
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert_eq!(listening[0].local.ip(), b.address());
    let established = of(SocketState::Established);
    assert_eq!(established.len(), 1, "{established:?}");
    assert_eq!(established[0].remote.ip(), a.address());
    assert!(
        a.sockets()
            .unwrap()
            .iter()
            .all(|socket| socket.state != SocketState::Listen)
    );
    listener.process.kill();
    listener.process.wait().unwrap();
    assert_eq!(of(SocketState::Listen), []);
}

#[test]
fn jnet_03_a_listener_on_loopback_is_reached_from_its_own_host_alone() {
    let Some(hosts) = hosts(2) else { return };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let mut listener = Talker::start(a, &["listen", "127.0.0.1"]);
    let line = listener.hear();
    let loopback = line.strip_prefix("at ").unwrap();
    let (_, port) = loopback.split_once(':').unwrap();
    // The first text means the other host's own loopback there; at the second, the first host's kernel refuses.
    for address in [loopback, &format!("{}:{port}", a.address())] {
        let mut command = Command::new(PEER);
        command.args(["dial", address]).stderr(Stdio::piped());
        let mut dialer = b.spawn(command).unwrap();
        let error = std::io::read_to_string(dialer.stderr.take().unwrap()).unwrap();
        assert!(error.contains("nobody answers (Connection refused"), "{error}");
        assert!(!dialer.wait().unwrap().success());
    }
    Talker::start(a, &["dial", loopback]).expect("linked");
}

#[test]
fn there_are_no_hosts_without_a_number_of_them() {
    for wanted in [0, 1000] {
        let refused = selvedge_test_hosts::Hosts::new(wanted).unwrap_err();
        assert!(matches!(refused, HostsError::Count { .. }), "{refused}");
    }
}
