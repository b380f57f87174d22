//! The real `ssh` and `sshd`, between hosts whose other ports a filter may close.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[path = "../programs/available.rs"]
mod available;
mod site;

use selvedge_test_hosts::{Host, SocketState};

use available::available;
use site::{site, until};

/// The ports on which a host's processes listen, but for `sshd`.
fn listening(host: &Host) -> Vec<std::net::SocketAddr> {
    let sockets = host.sockets().unwrap().into_iter();
    let listening = sockets.filter(|socket| socket.state == SocketState::Listen);
    let mut found: Vec<_> = listening
        .map(|socket| socket.local)
        .filter(|local| ![22, 2222].contains(&local.port()))
        .collect();
    found.sort();
    found
}

/// The names of the workers that came.
fn names(lines: &[String]) -> Vec<&str> {
    let workers = lines.iter().filter_map(|line| line.strip_prefix("worker "));
    workers.map(|worker| worker.rsplit_once(' ').unwrap().0).collect()
}

#[test]
fn jmgr_11_jnet_04_a_machine_file_gives_counts_users_ports_and_addresses_to_a_real_sshd() {
    let Some(site) = site(3) else { return };
    site.sshd(1, 22, "");
    site.sshd(2, 2222, "");
    let [one, two] = [1, 2].map(|number| site.hosts.host(number));
    let machines = format!(
        "# two workers, and one a core\n2*{0}\n\nauto*root@{1}:2222 {1}:4711\n",
        one.address(),
        two.address()
    );
    let cores = std::thread::available_parallelism().unwrap().get();
    let lines = site.add(&machines, false, |lines| {
        // By default a worker listens at the address where `sshd` was reached.
        let ports = listening(one);
        assert_eq!(ports.len(), 2, "{ports:?}");
        assert!(ports.iter().all(|port| port.ip() == one.address()), "{ports:?}");
        let ports = listening(two);
        assert_eq!(ports.len(), cores, "{ports:?}");
        assert!(ports.iter().all(|port| port.ip() == two.address()), "{ports:?}");
        assert!(ports.iter().any(|port| port.port() == 4711), "{ports:?}");
        assert!(lines.contains(&"sum 499500".to_owned()), "{lines:?}");
    });
    let mut expected: Vec<String> = (1..=2).map(|at| format!("{} {at}", one.address())).collect();
    expected.extend((1..=cores).map(|at| format!("{} {at}", two.address())));
    let mut found: Vec<String> = names(&lines).into_iter().map(str::to_owned).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for host in [one, two] {
        until("no worker is left", || listening(host).is_empty());
    }
}

#[test]
fn jnet_06_a_tunnel_leads_to_workers_where_every_port_but_that_of_sshd_is_closed() {
    if !available("nft") {
        return;
    }
    let Some(site) = site(2) else { return };
    site.sshd(1, 22, "");
    let host = site.hosts.host(1);
    site.filter(
        host,
        "table inet only { chain input { type filter hook input priority 0; policy drop; \
         iif lo accept; tcp dport 22 accept; }; }",
    );
    let machines = format!("2*{}\n", host.address());
    let lines = site.add(&machines, false, |_| {});
    let error = lines.iter().find(|line| line.starts_with("error "));
    let error = error.expect("no worker is reached without a tunnel");
    assert!(
        error.contains("worker `") && error.contains(&host.address().to_string()),
        "{error}"
    );
    let lines = site.add(&machines, true, |_| {});
    assert_eq!(names(&lines).len(), 2, "{lines:?}");
    // Those of the first attempt have heard of no driver, and end when they have waited for one.
    until("no worker is left", || listening(host).is_empty());
}

/// `sshd` drops the eleventh connection that has not logged in.
#[test]
fn jnet_10_twelve_workers_of_a_machine_log_in_ten_at_a_time() {
    let Some(site) = site(2) else { return };
    site.sshd(1, 22, "MaxStartups 10:100:10\nMaxSessions 10\n");
    let machines = format!("12*{}\n", site.hosts.host(1).address());
    let lines = site.add(&machines, false, |_| {});
    assert_eq!(names(&lines).len(), 12, "{lines:?}");
}
