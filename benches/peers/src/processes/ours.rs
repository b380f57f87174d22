//! selvedge-channels, measured as by `selvedge bench channel --transport shm`.

use clap::Parser;
use selvedge_cli::args::{Cli, Command};
use selvedge_cli::bench::channel;
use selvedge_cli::bench::measure::Summary;

use crate::case::Case;

/// Runs one repeat.
pub(crate) fn measure(case: &Case) -> anyhow::Result<Summary> {
    let mode = case.mode.to_string();
    let (payload, readers) = (case.payload_bytes.to_string(), case.readers.to_string());
    let wait = case.wait.to_string();
    let line = [
        "selvedge",
        "bench",
        "channel",
        "--transport",
        "shm",
        "--mode",
        &mode,
        "--wait",
        &wait,
        "--payload",
        &payload,
        "--readers",
        &readers,
    ];
    match Cli::try_parse_from(line)?.command {
        Command::Bench(args) => channel::once(&args, case.cores(), case.budget),
        _ => anyhow::bail!("not a bench"),
    }
}
