//! Drivers that add workers by the real `ssh` or the real `srun`, or that wait for guests, and say which came.
//!
//! The program prints a line `worker NAME PID` for each, `sum N` for a value that has gone from the first to the last, and `ready`; or
//! `error TEXT`. Then it waits for the end of its standard input.

use std::time::Duration;

use selvedge::hosts::{
    ClusterManager, CookieSource, DialIn, SlurmManager, SshManager, SshOptions, WorkerCommand,
};
use selvedge::prelude::*;

use crate::loads::pid;

/// The time after which a worker ends that its driver has not reached.
const WORKER_TIMEOUT_MS: &str = "20000";

#[remote]
fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[remote]
fn sum(values: Ref<Vec<u64>>) -> Result<u64> {
    Ok(values.fetch()?.iter().sum())
}

/// Adds the workers of a machine file, with this key.
pub(crate) fn by_ssh(machines: &str, key: &str, is_tunnelled: bool) -> anyhow::Result<()> {
    let flags = [
        "-F",
        "none",
        "-i",
        key,
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "LogLevel=ERROR",
    ];
    let options = flags.into_iter().fold(SshOptions::default(), SshOptions::flag);
    let manager = SshManager::file(machines).map_err(|error| anyhow::anyhow!("{error}"))?;
    let manager = manager.command(command()?).options(options.tunnel(is_tunnelled));
    added(&runtime(), manager, is_tunnelled)
}

/// Adds so many workers by steps of Slurm, on the node of the driver.
pub(crate) fn by_slurm(count: u16) -> anyhow::Result<()> {
    let command = command()?.bind("127.0.0.1".parse()?);
    let manager = SlurmManager::workers(count.try_into()?).command(command);
    added(&runtime(), manager, false)
}

/// Adds so many guests that have the cookie of this file.
pub(crate) fn by_dialling(address: &str, cookie: &str, count: u16) -> anyhow::Result<()> {
    let runtime = runtime();
    runtime.set_cookie(&CookieSource::File(cookie.into()))?;
    let door = DialIn::listen(address)?.expect(count.try_into()?);
    added(&runtime, door, false)
}

fn runtime() -> Runtime {
    Runtime::new().hello_timeout(Duration::from_secs(90))
}

fn command() -> anyhow::Result<WorkerCommand> {
    let program = std::env::current_exe()?.display().to_string();
    Ok(WorkerCommand::new(program).variable("SELVEDGE_WORKER_TIMEOUT_MS", WORKER_TIMEOUT_MS))
}

fn added(
    runtime: &Runtime,
    manager: impl ClusterManager + 'static,
    is_tunnelled: bool,
) -> anyhow::Result<()> {
    let workers = match runtime.add(manager) {
        Ok(workers) => workers,
        Err(error) => {
            println!("error {}", error.to_string().replace('\n', " "));
            return Ok(());
        }
    };
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait()?;
        println!("worker {} {found}", worker.name());
    }
    if let (Some(first), Some(last), false) = (workers.first(), workers.last(), is_tunnelled) {
        let values = runtime.keep(numbers::remote(1000).on(first));
        println!("sum {}", runtime.call(sum::remote(&values).on(last)).wait()?);
    }
    println!("ready");
    std::io::stdin().lines().for_each(drop);
    Ok(())
}
