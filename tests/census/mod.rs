//! Resources of a process: threads, descriptors, children, shared mappings. Tests count them before and after.
#![allow(dead_code, unreachable_pub)] // each test file uses only a part

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    pub threads: usize,
    pub descriptors: usize,
    pub children: usize,
    pub segments: usize,
}

impl Census {
    /// A census without the threads that run remote functions: how many of them there are while a runtime works, up to one for each
    /// core and some more, is a matter of time.
    pub fn beside_functions() -> Census {
        let all = Census::take();
        Census {
            threads: all.threads.saturating_sub(executor_threads()),
            ..all
        }
    }

    pub fn take() -> Census {
        let count = |path: &str| fs::read_dir(path).map(Iterator::count).unwrap_or(0);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Census {
            threads: count("/proc/self/task"),
            // The descriptor of the directory being read is one of them.
            descriptors: count("/proc/self/fd").saturating_sub(1),
            children: children_of(std::process::id()).len(),
            segments: maps
                .lines()
                .filter(|line| line.contains("memfd:") || line.contains("/dev/shm"))
                .count(),
        }
    }
}

/// The number of threads of this process that run remote functions.
fn executor_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "selvedge-remote").count()
}

/// The number of times that a thread has gone to sleep, from its folder in `/proc`; `None` if it has ended.
pub fn sleeps_of(thread: &Path) -> Option<u64> {
    let status = fs::read_to_string(thread.join("status")).ok()?;
    let sleeps = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    sleeps.trim().parse().ok()
}

/// Children of a process, zombies included.
pub fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Calls `look` until two successive results are equal, and returns them: a joined thread stays listed for a moment.
pub fn settled<T: PartialEq>(mut look: impl FnMut() -> T) -> T {
    let mut last = look();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = look();
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Calls `look` until it returns `wanted`, which it then returns.
///
/// # Panics
/// The wanted result does not come within a minute.
#[track_caller]
pub fn wait_until<T: PartialEq + Debug>(wanted: &T, mut look: impl FnMut() -> T) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = look();
        if seen == *wanted {
            return seen;
        }
        assert!(
            Instant::now() < deadline,
            "saw {seen:?}, and waited for {wanted:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The line of this process's memory map in which an address lies.
pub fn mapping_of(address: usize) -> String {
    let range = |line: &str| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(begin)?..number(end)?)
    };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = maps
        .lines()
        .find(|line| range(line).is_some_and(|range| range.contains(&address)));
    line.unwrap_or("nowhere").to_owned()
}
