//! Pools of workers, maps and loops over ranges, between processes.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[path = "../census/mod.rs"]
mod census;
mod dist;
mod globals;
mod map;
mod pool;
mod range;
mod shared;

use selvedge::parallel::Pool;
use selvedge::prelude::*;
use selvedge::{Worker, remote};

/// A runtime with workers, and a pool of them.
fn pool_of(workers: usize) -> (Runtime, Vec<Worker>, Pool) {
    let runtime = Runtime::new();
    let workers: Vec<_> = (0..workers)
        .map(|number| runtime.worker(format!("w{number}")).unwrap())
        .collect();
    let pool = runtime.pool_of(&workers).unwrap();
    (runtime, workers, pool)
}

/// The number of the process that runs this.
#[remote]
fn whereabouts(_item: u64) -> u32 {
    Runtime::current().unwrap().process().number()
}

#[remote]
fn dies() -> u32 {
    std::process::abort()
}

/// The path of a file that does not exist yet.
fn fresh_file(name: &str) -> String {
    let name = format!("selvedge-parallel-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    path.to_string_lossy().into_owned()
}

/// Adds a line to a file. Lines of several processes do not mix.
fn add_line(path: &str, line: &str) {
    use std::io::Write;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn lines(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
