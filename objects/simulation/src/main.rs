//! Runs simulated networks: `cargo run --release -p selvedge-simulation -- refs --seeds 0..100`.

use std::ops::Range;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser};
use selvedge_simulation::faults::Setting;
use selvedge_simulation::frames::{to_a_holder, to_a_third};
use selvedge_simulation::world::run;

/// Simulated networks of processes that run selvedge's protocols.
#[derive(Parser)]
enum Command {
    /// References: processes create objects, pass them on and drop them, while frames are lost and processes die.
    Refs(Refs),
}

#[derive(Args)]
struct Refs {
    /// The number of processes.
    #[arg(long, default_value_t = 20)]
    processes: u32,
    /// The number of objects.
    #[arg(long, default_value_t = 2000)]
    refs: u64,
    /// The frames of a hundred that are lost.
    #[arg(long, default_value_t = 0)]
    loss: u64,
    /// The frames of a hundred that arrive twice.
    #[arg(long, default_value_t = 0)]
    dup: u64,
    /// Frames overtake each other.
    #[arg(long)]
    reorder: bool,
    /// The number of processes that crash.
    #[arg(long, default_value_t = 0)]
    crashes: u32,
    /// The number of processes that are declared dead although they live.
    #[arg(long, default_value_t = 0)]
    mistakes: u32,
    /// The number of processes that shut down while the others run.
    #[arg(long, default_value_t = 0)]
    shutdowns: u32,
    /// The seeds, from the first to before the last.
    #[arg(long, default_value = "0..1", value_parser = seeds)]
    seeds: Range<u64>,
}

fn seeds(text: &str) -> anyhow::Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("seeds are written as FIRST..END")?;
    Ok(first.parse()?..end.parse()?)
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Refs(options) => refs(options),
    }
}

fn refs(options: Refs) -> ExitCode {
    let setting = Setting {
        processes: options.processes,
        refs: options.refs,
        loss_per_mille: 10 * options.loss,
        duplication_per_mille: 10 * options.dup,
        reorders: options.reorder,
        crashes: options.crashes,
        mistakes: options.mistakes,
        shutdowns: options.shutdowns,
    };
    println!(
        "passing to a third process: {} reference frames beside the call",
        to_a_third()
    );
    println!(
        "passing to one that has it: {:.3}, of 1000 in a row",
        to_a_holder(1000) as f64 / 1000.0
    );
    let mut verdict = ExitCode::SUCCESS;
    for seed in options.seeds {
        let report = run(setting, seed);
        println!("seed {seed}: {report}");
        if !report.is_clean() {
            verdict = ExitCode::FAILURE;
        }
    }
    verdict
}
