//! Programs that make hosts of their own, so that a test can count what they leave.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::ensure;
use selvedge_test_hosts::{Hosts, HostsError};

use super::census::wait_until;
use super::say;

/// Makes two hosts with two processes each, says `pid PID` for each process that began by it, and waits for the end of the input.
/// Says `left out` where there are no hosts.
pub(crate) fn hold() -> anyhow::Result<()> {
    let Some(hosts) = hosts()? else {
        say("left out");
        return Ok(());
    };
    let mut processes = Vec::new();
    for host in hosts.all() {
        for _ in 0..2 {
            processes.push(host.spawn(sleeper())?);
        }
    }
    for pid in descendants()? {
        say(format_args!("pid {pid}"));
    }
    say("held");
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(())
}

/// Makes hosts and ends them, in each way that there is, and says `nothing left` if this process has become what it was before.
pub(crate) fn come_and_go() -> anyhow::Result<()> {
    let before = Possessions::count()?;
    for _ in 0..3 {
        let Some(hosts) = hosts()? else {
            say("left out");
            return Ok(());
        };
        for host in hosts.all() {
            host.spawn(sleeper())?;
        }
        let (first, second) = (hosts.host(0), hosts.host(1));
        first.freeze()?;
        second.kill()?;
        let meanwhile = Possessions::count()?;
        ensure!(meanwhile.threads == before.threads + 3 && meanwhile.descendants >= before.descendants + 2);
        drop(hosts);
        // An error may mean that a thread was removed while it was looked at.
        wait_until(&Some(before.clone()), || Possessions::count().ok());
    }
    say("nothing left");
    Ok(())
}

fn hosts() -> anyhow::Result<Option<Hosts>> {
    match Hosts::new(2) {
        Err(HostsError::LeftOut(_)) => Ok(None),
        made => Ok(Some(made?)),
    }
}

/// A program that has a child of its own and ends only when it is killed.
fn sleeper() -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "sleep infinity & wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// What this process has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Possessions {
    descriptors: BTreeSet<String>,
    threads: usize,
    descendants: usize,
    namespaces: BTreeSet<String>,
}

impl Possessions {
    fn count() -> anyhow::Result<Self> {
        let mut threads = 0;
        let mut namespaces = BTreeSet::new();
        for thread in fs::read_dir("/proc/self/task")? {
            threads += 1;
            for namespace in fs::read_dir(thread?.path().join("ns"))? {
                namespaces.insert(fs::read_link(namespace?.path())?.display().to_string());
            }
        }
        let mut descriptors = BTreeSet::new();
        for descriptor in fs::read_dir("/proc/self/fd")? {
            descriptors.insert(descriptor?.file_name().to_string_lossy().into_owned());
        }
        Ok(Possessions {
            descriptors,
            threads,
            descendants: descendants()?.len(),
            namespaces,
        })
    }
}

/// The processes that began by this one, as all processes outside of hosts know them.
fn descendants() -> anyhow::Result<BTreeSet<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that has ended meanwhile is none.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (pid, parent)));
    }
    let mut found = BTreeSet::from([std::process::id()]);
    while parents
        .iter()
        .any(|(pid, parent)| found.contains(parent) && found.insert(*pid))
    {}
    found.remove(&std::process::id());
    Ok(found)
}
