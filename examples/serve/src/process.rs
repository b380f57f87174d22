//! What the system says of this process and its workers: memory, descriptors, threads.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Bytes of memory that are resident.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

/// What a process holds; zeros where it is gone.
pub fn holdings(pid: u32) -> Holdings {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Holdings {
        resident: field("VmRSS:").unwrap_or(0) * 1024,
        descriptors: descriptors as u64,
        threads: field("Threads:").unwrap_or(0),
    }
}

/// Lets this process open as many descriptors as the system allows it: the usual limit is 1024, below what a service needs.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it is refused, connections beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, most);
}
