//! Nothing is left of hosts, whoever dies.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{getpid, set_child_subreaper};

use crate::support::{PEER, hosts, pidfds, wait_for_ends};

/// The kinds of namespaces that a host has for itself.
const KINDS: [&str; 5] = ["net", "pid", "uts", "ipc", "mnt"];

/// The namespaces of a process and its threads. One that has ended has none.
fn namespaces(pid: u32) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    for thread in threads {
        for kind in KINDS {
            let link = fs::read_link(thread.path().join("ns").join(kind));
            found.extend(link.ok().map(|link| link.display().to_string()));
        }
    }
    found
}

/// The namespaces of all processes.
fn all_namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.flat_map(namespaces).collect()
}

#[test]
fn hosts_that_are_dropped_leave_nothing() {
    let done = Command::new(PEER).arg("come-and-go").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    match said.trim() {
        "nothing left" => {}
        // Prints the reason.
        "left out" => assert!(hosts(1).is_none()),
        other => panic!("{other}{}", String::from_utf8_lossy(&done.stderr)),
    }
}

#[test]
fn hosts_of_a_killed_process_leave_nothing() {
    // The processes of the hosts are the dead one's children, and somebody has to reap them.
    set_child_subreaper(Some(getpid())).unwrap();
    let mut holder = Command::new(PEER)
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    for line in BufReader::new(holder.stdout.take().unwrap()).lines() {
        match line.unwrap().strip_prefix("pid ") {
            Some(pid) => pids.push(pid.parse::<u32>().unwrap()),
            None => break,
        }
    }
    if pids.is_empty() {
        holder.wait().unwrap();
        return assert!(hosts(1).is_none());
    }
    assert!(pids.len() >= 6, "two inits, four processes: {pids:?}");
    let theirs: BTreeSet<_> = pids.iter().copied().flat_map(namespaces).collect();
    let theirs: BTreeSet<_> = theirs
        .difference(&namespaces(std::process::id()))
        .cloned()
        .collect();
    assert_eq!(theirs.len(), 10, "five namespaces for each host: {theirs:?}");
    let pidfds = pidfds(&pids);
    // As long as the namespaces are open here, others do not get their names.
    let kinds = |pid| KINDS.map(|kind| File::open(format!("/proc/{pid}/ns/{kind}")).ok());
    let _kept: Vec<_> = pids.iter().map(kinds).collect();

    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_for_ends(pidfds);
    let left = all_namespaces();
    assert_eq!(theirs.intersection(&left).count(), 0);
}

#[test]
fn hosts_are_left_out_without_the_right_to_make_them() {
    if rustix::process::geteuid().as_raw() != 0 {
        return assert!(hosts(1).is_none());
    }
    // Another user may not enter the folder where this program was built.
    let folder = std::env::temp_dir().join(format!("selvedge-test-hosts-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let program = folder.join("peer");
    fs::copy(PEER, &program).unwrap();
    let done = Command::new(&program)
        .arg("hold")
        .uid(65_534)
        .gid(65_534)
        .output();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(String::from_utf8_lossy(&done.unwrap().stdout), "left out\n");
}
