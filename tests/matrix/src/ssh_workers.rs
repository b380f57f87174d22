//! A driver that adds workers by the real `ssh`, and says which came.
//!
//! It prints a line `worker NAME PID` for each, `sum N` for a value that has gone from the first to the last, and `ready`; or
//! `error TEXT`. Then it waits for the end of its standard input.

use std::time::Duration;

use selvedge::hosts::{SshManager, SshOptions, WorkerCommand};
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
pub(crate) fn run(machines: &str, key: &str, is_tunnelled: bool) -> anyhow::Result<()> {
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
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(90));
    let manager = SshManager::file(machines).map_err(|error| anyhow::anyhow!("{error}"))?;
    let program = std::env::current_exe()?.display().to_string();
    let command = WorkerCommand::new(program).variable("SELVEDGE_WORKER_TIMEOUT_MS", WORKER_TIMEOUT_MS);
    let manager = manager.command(command);
    let workers = match runtime.add(manager.options(options.tunnel(is_tunnelled))) {
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
