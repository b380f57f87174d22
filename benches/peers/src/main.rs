//! Compares selvedge's channels with other libraries in one run: a table on standard output, and a plot.
//!
//! ```text
//! cargo run --release -p selvedge-peers --features iceoryx2 -- --svg peers.svg
//! ```
//!
//! At every point the libraries and the machine's own limit take turns, five times; a row is the median of its repeats,
//! a ratio the median of the ratios turn by turn.
//!
//! - `case`: a point of the table.
//! - `threads`, `processes`: the peers, one file each.
//! - `turns`: the measurement of a point.
//! - `table`, `plot`: the output of the results.

mod case;

mod processes;
mod threads;

mod turns;

mod plot;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use selvedge_cli::args::{Mode, Wait};

use crate::case::{Case, Sides};

/// Selvedge's channels beside others.
#[derive(Parser, Debug)]
struct Arguments {
    #[command(subcommand)]
    other: Option<OtherSide>,
    /// Bytes in a payload; 8 is a number.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 4096, 65_536, 1 << 20, 16 << 20, 64 << 20])]
    payload: Vec<usize>,
    /// The kinds of the two sides.
    #[arg(long, value_delimiter = ',', default_value = "threads,processes")]
    sides: Vec<Sides>,
    /// The wait policies of the sides; `auto` is the default policy of each library.
    #[arg(long, value_delimiter = ',', default_value = "spin,park,auto")]
    wait: Vec<Wait>,
    /// The modes in which payloads are passed.
    #[arg(long, value_delimiter = ',', default_value = "copy,loan,stream")]
    mode: Vec<Mode>,
    /// Readers, each of which gets every message; more than one with numbers only.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    readers: Vec<usize>,
    /// Seconds that one repeat of one peer at one point may take.
    #[arg(long, default_value_t = 0.1)]
    seconds: f64,
    /// One JSON object a row instead of a table.
    #[arg(long)]
    json: bool,
    /// The file of the plot.
    #[arg(long)]
    svg: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum OtherSide {
    #[command(hide = true)]
    Serve(processes::ServeArgs),
}

fn main() -> anyhow::Result<()> {
    // The other side of a limit, or of a channel of selvedge, as in the `selvedge` command.
    if std::env::args()
        .nth(1)
        .is_some_and(|word| word == "peer" || word == "channel-peer")
    {
        return selvedge_cli::run(selvedge_cli::args::Cli::parse());
    }
    let arguments = Arguments::parse();
    if let Some(OtherSide::Serve(args)) = &arguments.other {
        return processes::serve(args);
    }
    let mut points = Vec::new();
    for case in cases(&arguments) {
        let point = turns::measure(&case)?;
        table::print(&point, arguments.json)?;
        points.push(point);
    }
    table::worst(&points, arguments.json);
    if let Some(path) = arguments.svg {
        std::fs::write(&path, plot::draw(&points))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the useful points: streams and several readers only for numbers, loans only for payloads between processes.
fn cases(arguments: &Arguments) -> Vec<Case> {
    let budget = Duration::from_secs_f64(arguments.seconds.clamp(0.001, 60.0));
    let mut cases = Vec::new();
    for &sides in &arguments.sides {
        for &mode in &arguments.mode {
            for &wait in &arguments.wait {
                for &readers in &arguments.readers {
                    for &payload_bytes in &arguments.payload {
                        let case = Case {
                            sides,
                            mode,
                            wait,
                            payload_bytes,
                            readers: readers.max(1),
                            waiting: wait.waiting(readers + 1),
                            budget,
                        };
                        let number = case.is_number();
                        let speaks = match mode {
                            Mode::Copy => readers == 1 || (number && wait != Wait::Spin),
                            Mode::Loan => {
                                readers == 1 && !number && wait == Wait::Spin && sides == Sides::Processes
                            }
                            Mode::Stream => readers == 1 && number && wait != Wait::Park,
                        };
                        if speaks {
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases
}
