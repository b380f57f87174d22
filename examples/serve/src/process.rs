//! The system's figures for this process and its workers: memory, descriptors, threads.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The bytes of resident memory.
    pub resident: u64,
    /// The number of open descriptors.
    pub descriptors: u64,
    /// The number of threads.
    pub threads: u64,
}

/// Returns the resources of a process; zeros if the process is gone.
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

/// Lets this process open as many descriptors as the system allows: the usual limit is 1024, fewer than a service
/// needs.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If the system refuses, connections beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, most);
}
