//! Hosts behind NAT, which meet at a router of zenoh, and have direct links where a dial works.
//!
//! ```text
//!  left ─┬─ neighbour                    right
//!     gateway (NAT)                  gateway (NAT)
//!        └────────── router ── head ─────┘
//! ```

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_test_hosts::{Host, Hosts, Process, SocketState};

use crate::available::available;
use crate::cell::nothing_is_left;
use crate::driver::Driver;
use crate::sshd::Sshd;

const ROUTER: usize = 0;
const HEAD: usize = 1;
const GATEWAYS: [usize; 2] = [2, 3];
const LEFT: usize = 4;
const NEIGHBOUR: usize = 5;
const RIGHT: usize = 6;
const WORKERS: [usize; 3] = [LEFT, NEIGHBOUR, RIGHT];

/// The numbers of 8 bytes that a worker reads of another one, and their bytes.
const COUNT: u64 = 1 << 20;
const BYTES: u64 = 8 * COUNT;

/// Hides the hosts behind a gateway: its kernel writes its own address into their packets.
fn hide(hosts: &Hosts, gateway: usize, behind: &[usize]) {
    let gateway = hosts.host(gateway);
    gateway.forward().unwrap();
    let mut nft = Command::new("nft");
    nft.arg("table ip nat { chain out { type nat hook postrouting priority srcnat; masquerade; }; }");
    let nft = gateway.spawn(nft).unwrap();
    assert!(nft.wait().unwrap().success(), "the filter is refused");
    for number in behind {
        hosts.put_behind(hosts.host(*number), gateway);
    }
}

/// The place of the router.
fn place(hosts: &Hosts) -> String {
    format!("{}:7447", hosts.host(ROUTER).address())
}

/// Starts the router, and waits until it listens.
fn start_router(hosts: &Hosts) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge-matrix"));
    command
        .args(["router", &format!("tcp/{}", place(hosts))])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut router = hosts.host(ROUTER).spawn(command).unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(router.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert_eq!(first, "ready\n");
    router
}

/// The bytes that the router has received and sent, by the kernel's counters of its interface.
fn through_router(hosts: &Hosts) -> [u64; 2] {
    let bytes = hosts.host(ROUTER).interface_bytes().unwrap();
    [bytes.received, bytes.sent]
}

/// The hosts to which a host has connections.
fn peers(host: &Host) -> Vec<IpAddr> {
    let sockets = host.sockets().unwrap().into_iter();
    let connected = sockets.filter(|socket| socket.state == SocketState::Established);
    let mut peers: Vec<_> = connected.map(|socket| SocketAddr::ip(&socket.remote)).collect();
    peers.sort();
    peers.dedup();
    peers
}

/// Runs a driver at the head, with a worker on each host that is behind a gateway. The test gets the router, and returns one that runs.
fn site(test: impl FnOnce(&Hosts, &mut Driver, Process) -> Process) {
    if !available("nft") {
        return;
    }
    let Some(hosts) = Hosts::or_left_out(7).unwrap() else {
        return;
    };
    hide(&hosts, GATEWAYS[0], &[LEFT, NEIGHBOUR]);
    hide(&hosts, GATEWAYS[1], &[RIGHT]);
    std::thread::scope(|scope| {
        let sshd = Sshd::start(scope, &hosts);
        let router = start_router(&hosts);
        let place = place(&hosts);
        let names = WORKERS.map(|number| hosts.host(number).name());
        let arguments = ["routed-driver", &place, names[0], names[1], names[2]];
        let mut driver = Driver::start(scope, hosts.host(HEAD), &sshd.socket(), &arguments);
        driver.hear("ready");
        driver.tell("work");
        driver.hear("worked");
        // Its standard input is its life.
        let _router = test(&hosts, &mut driver, router);
        driver.tell("end");
        driver.hear("left nothing");
        assert!(driver.process.wait().unwrap().success());
        // Their driver tells them the end through the router.
        for number in WORKERS {
            sshd.worker(number).wait().unwrap();
        }
        hosts.host(ROUTER).kill().unwrap();
        nothing_is_left(&hosts, &sshd, &WORKERS);
    });
}

#[test]
fn hosts_behind_nat_work_through_a_router_and_neighbours_have_a_direct_link() {
    site(|hosts, driver, running| {
        let [router, left, neighbour, right] =
            [ROUTER, LEFT, NEIGHBOUR, RIGHT].map(|number| hosts.host(number));
        // The router sees the gateways, and nobody behind them.
        let seen = [HEAD, GATEWAYS[0], GATEWAYS[1]].map(|number| IpAddr::from(hosts.host(number).address()));
        assert_eq!(peers(router), seen);
        let direct = |from: &Host, to: &Host| hosts.traffic(from, to).bytes;
        let (before, direct_before) = (through_router(hosts), direct(left, neighbour));
        driver.tell(&format!("read 0 1 {COUNT}"));
        driver.hear("read");
        let (between, direct_between) = (through_router(hosts), direct(left, neighbour));
        driver.tell(&format!("read 0 2 {COUNT}"));
        driver.hear("read");
        let (after, direct_after) = (through_router(hosts), direct(left, neighbour));
        let passed = |one: [u64; 2], other: [u64; 2]| [other[0] - one[0], other[1] - one[1]];
        let (neighbours, strangers) = (passed(before, between), passed(between, after));
        let line = format!(
            "nat: {BYTES} bytes between neighbours: {} on their line, {neighbours:?} through the router; between strangers: {strangers:?}\n",
            direct_between - direct_before
        );
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        assert!(direct_between - direct_before >= BYTES);
        assert!(
            neighbours.iter().all(|bytes| *bytes < BYTES / 8),
            "{neighbours:?}"
        );
        assert!(strangers.iter().all(|bytes| *bytes >= BYTES), "{strangers:?}");
        assert!(direct_after - direct_between < BYTES / 8);
        assert_eq!((direct(left, right), direct(right, left)), (0, 0));
        running
    });
}

/// The sample has no such cell: it takes as long as the router is away.
#[test]
fn a_router_that_is_away_for_ten_seconds_loses_nothing_of_hosts_behind_nat() {
    if std::env::var("MATRIX").is_ok_and(|which| which == "all") {
        site(|hosts, driver, router| {
            router.kill();
            router.wait().unwrap();
            driver.tell("submit");
            // The length of the absence. What is seen does not depend on it.
            std::thread::sleep(Duration::from_secs(10));
            let again = start_router(hosts);
            // Not all of it had room before.
            driver.hear("submitted");
            driver.tell("collect");
            driver.hear("collected");
            driver.tell("work");
            driver.hear("worked");
            again
        });
    }
}
