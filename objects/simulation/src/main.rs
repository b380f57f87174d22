//! Runs simulated networks: `cargo run --release -p selvedge-simulation -- refs --seeds 0..100`.

use std::fmt::Display;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser};
use selvedge_cluster::membership::MemberSettings;
use selvedge_simulation::faults::Setting;
use selvedge_simulation::frames::{to_a_holder, to_a_third};
use selvedge_simulation::members::cluster;
use selvedge_simulation::members::setting::MemberSetting;
use selvedge_simulation::world::run;

/// Simulated networks of processes that run selvedge's protocols.
#[derive(Parser)]
enum Command {
    /// References: processes create objects, pass them on and drop them, while frames are lost and processes die.
    Refs(Refs),
    /// Members: a head and many hosts, while frames are lost, processes die, and hosts stand still or are cut off.
    Members(MemberArgs),
}

#[derive(Args)]
struct MemberArgs {
    /// The number of hosts beside the head's.
    #[arg(long, default_value_t = 100)]
    hosts: u32,
    /// The number of workers of each host, beside its agent.
    #[arg(long, default_value_t = 9)]
    workers: u32,
    /// The minutes of virtual time.
    #[arg(long, default_value_t = 20)]
    minutes: u64,
    /// The frames of a hundred that are lost.
    #[arg(long, default_value_t = 0)]
    loss: u64,
    /// The frames of a hundred that arrive twice.
    #[arg(long, default_value_t = 0)]
    dup: u64,
    /// The number of agents that are killed.
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// The number of workers that are killed.
    #[arg(long, default_value_t = 10)]
    worker_kills: u32,
    /// The number of hosts that stand still for 15 to 30 s.
    #[arg(long, default_value_t = 10)]
    freezes: u32,
    /// The number of hosts that stand still for less than 4 s.
    #[arg(long, default_value_t = 10)]
    pauses: u32,
    /// The hosts of a hundred that are cut off for 30 s.
    #[arg(long, default_value_t = 10)]
    cut: u32,
    /// The seeds, from the first to before the last.
    #[arg(long, default_value = "0..1", value_parser = seeds)]
    seeds: Range<u64>,
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
        Command::Members(options) => members(options),
    }
}

fn members(options: MemberArgs) -> ExitCode {
    let setting = MemberSetting {
        hosts: options.hosts,
        workers: options.workers,
        time: Duration::from_secs(60 * options.minutes),
        loss_per_mille: 10 * options.loss,
        duplication_per_mille: 10 * options.dup,
        kills: options.kills,
        worker_kills: options.worker_kills,
        freezes: options.freezes,
        pauses: options.pauses,
        cut_percent: options.cut,
        times: MemberSettings::default(),
    };
    run_all(options.seeds, |seed| {
        let report = cluster::run(setting, seed);
        (report.is_clean(), report)
    })
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
    run_all(options.seeds, |seed| {
        let report = run(setting, seed);
        (report.is_clean(), report)
    })
}

/// Runs and prints each seed. The result is a failure if one of them was not clean.
fn run_all<R: Display>(seeds: Range<u64>, run: impl Fn(u64) -> (bool, R)) -> ExitCode {
    let mut verdict = ExitCode::SUCCESS;
    for seed in seeds {
        let (is_clean, report) = run(seed);
        println!("seed {seed}: {report}");
        if !is_clean {
            verdict = ExitCode::FAILURE;
        }
    }
    verdict
}
