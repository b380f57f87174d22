//! What runs on the hosts of the matrix. A worker is this program too: selvedge makes it one before `main`.
//!
//! - `driver LOAD SILENCE_MS WORKER_TIMEOUT_MS`: a driver with two workers and a load (`driver`).
//! - `ssh-workers MACHINES KEY TUNNELLED`, `slurm-workers COUNT`, `guests ADDRESS COOKIE COUNT`: drivers that use the real `ssh` and `srun`, or
//!   that wait for guests (`launched`).
//! - `router ENDPOINT`, `routed-worker ROUTER`, `routed-driver ROUTER HOST..`: a router of zenoh, and those who meet there (`routed`; with the
//!   feature `cluster`).
//! - `storm ADDRESS COOKIE FOLDER`: a driver of calls on hosts that the test strikes (`storm_driver`).
//! - `ssh .. HOST COMMAND`: stands in for `ssh` (`stand_in`).

#[cfg(target_os = "linux")]
#[path = "../../census/mod.rs"]
mod census;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
#[path = "../../killing/mod.rs"]
mod killing;
#[cfg(target_os = "linux")]
mod launched;
#[cfg(target_os = "linux")]
mod loads;
#[cfg(target_os = "linux")]
mod resets;
#[cfg(all(target_os = "linux", feature = "cluster"))]
mod routed;
#[cfg(target_os = "linux")]
mod stand_in;
#[cfg(target_os = "linux")]
mod steps;
#[cfg(target_os = "linux")]
#[path = "../../storm/mod.rs"]
mod storm;
#[cfg(target_os = "linux")]
mod storm_driver;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["ssh", .., host, command] => stand_in::run(host, command),
        ["ssh-workers", machines, key, is_tunnelled] => {
            launched::by_ssh(machines, key, is_tunnelled.parse()?)
        }
        #[cfg(feature = "cluster")]
        ["router", endpoint] => routed::router(endpoint),
        #[cfg(feature = "cluster")]
        ["routed-worker", router] => routed::worker(router),
        #[cfg(feature = "cluster")]
        ["routed-driver", router, ref hosts @ ..] => routed::driver(router, hosts),
        ["guests", address, cookie, count] => launched::by_dialling(address, cookie, count.parse()?),
        ["storm", address, cookie, folder] => storm_driver::run(address, cookie, folder),
        ["slurm-workers", count] => launched::by_slurm(count.parse()?),
        ["driver", load, silence_ms, worker_timeout_ms] => {
            driver::run(load, silence_ms.parse()?, worker_timeout_ms)
        }
        _ => anyhow::bail!("no such program: {words:?}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
