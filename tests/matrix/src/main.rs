//! What runs on the hosts of the matrix. A worker is this program too: selvedge makes it one before `main`.
//!
//! - `driver LOAD SILENCE_MS WORKER_TIMEOUT_MS`: a driver with two workers and a load (`driver`).
//! - `ssh-workers MACHINES KEY TUNNELLED`: a driver that uses the real `ssh` (`ssh_workers`).
//! - `ssh .. HOST COMMAND`: stands in for `ssh` (`stand_in`).

#[cfg(target_os = "linux")]
#[path = "../../census/mod.rs"]
mod census;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod loads;
#[cfg(target_os = "linux")]
mod resets;
#[cfg(target_os = "linux")]
mod ssh_workers;
#[cfg(target_os = "linux")]
mod stand_in;
#[cfg(target_os = "linux")]
mod steps;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["ssh", .., host, command] => stand_in::run(host, command),
        ["ssh-workers", machines, key, is_tunnelled] => {
            ssh_workers::run(machines, key, is_tunnelled.parse()?)
        }
        ["driver", load, silence_ms, worker_timeout_ms] => {
            driver::run(load, silence_ms.parse()?, worker_timeout_ms)
        }
        _ => anyhow::bail!("no such program: {words:?}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
