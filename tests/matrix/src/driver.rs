//! The driver: two workers, one on each of two other hosts, and a load.
//!
//! The program obeys lines of its standard input, and answers with lines:
//!
//! | order | answer |
//! |---|---|
//! | none | `ready`, when the load has gone well for a step |
//! | `go on` | none |
//! | `steps N` | `steps N MS`: so many further steps were done, of which the longest took so long |
//! | `reset` | `reset N`: so many connections of all processes were reset |
//! | `end` | `second TEXT`: what a call of the second worker says; `left TEXT`: what this process still has |
//!
//! The first error of the load is the line `news TEXT`.

use std::io::Write;
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{LinkTransport, MachineSpec, SshManager, SshOptions, WorkerCommand};
use selvedge::prelude::*;

use crate::census::{Census, settled, wait_until};
use crate::loads::{load, pid};
use crate::resets::reset_all;
use crate::steps::Steps;

/// The variable that has the links of the workers under TLS.
const ENV_TLS: &str = "MATRIX_TLS";

/// Runs the driver to the end of its orders.
pub(crate) fn run(name: &str, silence_ms: u64, worker_timeout_ms: &str) -> anyhow::Result<()> {
    let before = settled(Census::take);
    serve(name, Duration::from_millis(silence_ms), worker_timeout_ms)?;
    wait_until(&before, Census::take);
    say("left nothing");
    Ok(())
}

fn serve(name: &str, silence: Duration, worker_timeout_ms: &str) -> anyhow::Result<()> {
    let runtime = Runtime::new()
        .silence_timeout(silence)
        .hello_timeout(Duration::from_secs(60));
    let program = std::env::current_exe()?.display().to_string();
    let options = SshOptions::default().program(program.as_str()).flag("ssh");
    let command = WorkerCommand::new(program).variable("SELVEDGE_WORKER_TIMEOUT_MS", worker_timeout_ms);
    let machines = MachineSpec::parse_file("host-1\nhost-2")?;
    let transport = match std::env::var_os(ENV_TLS) {
        Some(_) => LinkTransport::tls()?,
        None => LinkTransport::tcp(),
    };
    let manager = SshManager::machines(machines).options(options).command(command);
    let manager = manager.transport(transport);
    let workers = runtime.add(manager)?;
    let (step, is_busy) = load(name, &runtime, &workers)?;
    let steps = Steps::start(step, |error| say(&format!("news {}", one_line(error))));
    steps.further(1);
    if is_busy {
        steps.go_on();
    }
    say("ready");
    for order in std::io::stdin().lines() {
        match order?.as_str() {
            "go on" => steps.go_on(),
            "reset" => say(&format!("reset {}", reset(&runtime, &workers))),
            "end" => break,
            other => {
                let count = other.strip_prefix("steps ").and_then(|count| count.parse().ok());
                let count = count.ok_or_else(|| anyhow::anyhow!("no such order: {other}"))?;
                let done = steps.further(count);
                if done.error.is_none() {
                    say(&format!("steps {count} {}", done.longest.as_millis()));
                }
            }
        }
    }
    steps.end();
    let second = workers
        .last()
        .map(|worker| runtime.call(pid::remote().on(worker)).wait());
    match second {
        Some(Err(error)) => say(&format!("second {}", one_line(&error.to_string()))),
        _ => say("second well"),
    }
    Ok(())
}

/// Resets the connections of all three processes.
fn reset(runtime: &Runtime, workers: &[Worker]) -> u64 {
    let here = reset_all().unwrap_or_default();
    let there = workers
        .iter()
        .map(|worker| runtime.call(reset_all::remote().on(worker)).wait());
    here + there.flatten().sum::<u64>()
}

pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints a line at once. Ends the program if nobody reads it.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
