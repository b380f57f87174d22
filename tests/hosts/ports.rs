//! Who listens where, who is connected with whom, and what a process tells of the cookie.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::TcpStream;

use selvedge::prelude::*;

use crate::{alone, local, pid};

/// A TCP socket of a process, as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    pub local: String,
    remote: String,
    is_listening: bool,
}

/// The TCP sockets of a process.
fn sockets(pid: u32) -> BTreeSet<Socket> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let inodes: BTreeSet<String> = descriptors
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
            Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    rows.filter_map(|row| {
        let fields: Vec<_> = row.split_whitespace().collect();
        inodes.contains(fields[9]).then(|| Socket {
            local: fields[1].to_owned(),
            remote: fields[2].to_owned(),
            is_listening: fields[3] == "0A",
        })
    })
    .collect()
}

pub fn listeners(pid: u32) -> Vec<Socket> {
    sockets(pid)
        .into_iter()
        .filter(|socket| socket.is_listening)
        .collect()
}

pub fn links(pid: u32) -> usize {
    sockets(pid).len() - listeners(pid).len()
}

/// Whether one of two processes has a connection to a port of the other one.
pub fn are_linked(one: u32, other: u32) -> bool {
    has_dialled(one, other) || has_dialled(other, one)
}

/// Whether a process has a connection to a port of another one.
pub fn has_dialled(from: u32, to: u32) -> bool {
    let ports: Vec<_> = listeners(to).into_iter().map(|socket| socket.local).collect();
    sockets(from).iter().any(|socket| ports.contains(&socket.remote))
}

/// Whether all connections of a process lead to this address.
pub fn all_lead_to(pid: u32, address: std::net::SocketAddr) -> bool {
    let port = format!(":{:04X}", address.port());
    sockets(pid).iter().all(|socket| socket.remote.ends_with(&port))
}

#[remote]
fn pid_at(place: Ref<u32>) -> Result<u32> {
    Ok(*place.fetch()?)
}

#[test]
fn jnet_01_jnet_02_jtopo_04_the_driver_listens_nowhere_and_links_are_made_when_they_are_used() {
    let _guard = alone();
    let me = std::process::id();
    let before = links(me);
    let runtime = Runtime::new();
    let workers = runtime.add(local(4)).unwrap();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.pid().unwrap()).collect();
    assert_eq!(listeners(me), []);
    for pid in &pids {
        let places = listeners(*pid);
        // 127.0.0.1, as the kernel writes it.
        assert!(
            places.len() == 1 && places[0].local.starts_with("0100007F:"),
            "{places:?}"
        );
    }
    assert_eq!(links(me) - before, 4);
    assert!(pids.iter().all(|pid| links(*pid) == 1));
    // One pair of workers needs a link.
    let kept = runtime.keep(pid::remote().on(&workers[0]));
    assert_eq!(
        runtime
            .call(pid_at::remote(&kept).on(&workers[1]))
            .wait()
            .unwrap(),
        pids[0]
    );
    let counts: Vec<_> = pids.iter().map(|pid| links(*pid)).collect();
    assert_eq!((links(me) - before, counts), (4, vec![2, 2, 1, 1]));
    drop((kept, workers, runtime));
    assert_eq!(links(me), before, "a removed worker leaves no socket");
}

#[test]
fn jtopo_07_two_workers_that_need_each_other_at_once_have_one_link() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2)).unwrap();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.pid().unwrap()).collect();
    let kept: Vec<_> = workers
        .iter()
        .map(|worker| runtime.keep(pid::remote().on(worker)))
        .collect();
    let calls = [0, 1].map(|at| runtime.call(pid_at::remote(&kept[1 - at]).on(&workers[at])));
    let found = calls.map(|call| call.wait().unwrap());
    assert_eq!(found, [pids[1], pids[0]]);
    // The driver, and each other.
    assert_eq!(pids.iter().map(|pid| links(*pid)).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn jmgr_10_jnet_14_no_process_shows_the_cookie_and_workers_close_their_input() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1)).unwrap();
    let of_worker = workers[0].pid().unwrap();
    // The cookie is 64 hexadecimal digits, made when the worker was added.
    let is_cookie = |text: &[u8]| {
        let mut runs = text.split(|byte| !byte.is_ascii_hexdigit());
        runs.any(|run| run.len() >= 64)
    };
    for pid in [of_worker, std::process::id()] {
        let shown = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!is_cookie(&shown), "{}", String::from_utf8_lossy(&shown));
    }
    let variables = |pid| fs::read(format!("/proc/{pid}/environ")).unwrap();
    let (of_driver, of_worker_too) = (variables(std::process::id()), variables(of_worker));
    let known: Vec<_> = of_driver.split(|byte| *byte == 0).collect();
    for variable in of_worker_too.split(|byte| *byte == 0) {
        let is_new = !known.contains(&variable);
        assert!(
            !is_new || !is_cookie(variable),
            "{}",
            String::from_utf8_lossy(variable)
        );
    }
    let input = fs::read_link(format!("/proc/{of_worker}/fd/0")).unwrap();
    assert_eq!(input.to_str(), Some("/dev/null"));
}

#[test]
fn jnet_13_a_stranger_is_turned_away_and_disturbs_nobody() {
    let _guard = alone();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1)).unwrap();
    let of_worker = workers[0].pid().unwrap();
    let port = listeners(of_worker)[0]
        .local
        .split_once(':')
        .unwrap()
        .1
        .to_owned();
    let port = u16::from_str_radix(&port, 16).unwrap();
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(
        &mut stranger,
        b"GET / HTTP/1.1\r\nHost: worker\r\nAccept: everything\r\n\r\n",
    )
    .unwrap();
    let mut answer = Vec::new();
    // The worker closes the stream, perhaps by a reset, because it has not read everything.
    let _ = stranger.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    assert_eq!(
        runtime.call(pid::remote().on(&workers[0])).wait().unwrap(),
        of_worker
    );
}
