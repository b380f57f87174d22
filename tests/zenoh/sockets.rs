//! The TCP sockets of a process, as the kernel lists them.

use std::collections::BTreeSet;
use std::fs;

/// The local and the remote address of each socket, and its state.
fn sockets(pid: u32) -> Vec<[String; 3]> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    let links: BTreeSet<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    rows.filter_map(|row| {
        let mut fields = row.split_whitespace().skip(1).map(str::to_owned);
        let [local, remote, state] = [fields.next()?, fields.next()?, fields.next()?];
        let inode = fields.nth(5)?;
        links
            .contains(&format!("socket:[{inode}]"))
            .then_some([local, remote, state])
    })
    .collect()
}

/// The addresses at which a process listens.
pub fn listening(pid: u32) -> Vec<String> {
    let listening = sockets(pid).into_iter().filter(|[_, _, state]| state == "0A");
    listening.map(|[local, ..]| local).collect()
}

/// Whether a process has connections, and all of them lead to this endpoint.
pub fn all_lead_to(pid: u32, endpoint: &str) -> bool {
    let port: u16 = endpoint.rsplit(':').next().unwrap().parse().unwrap();
    let sockets = sockets(pid);
    let leads = |[_, remote, _]: &[String; 3]| remote.ends_with(&format!(":{port:04X}"));
    !sockets.is_empty() && sockets.iter().all(leads)
}
