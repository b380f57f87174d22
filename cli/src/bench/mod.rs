//! The cases of `selvedge bench`, one file each, and the code that measures them.
//!
//! - [`measure`]: batches, repeats, percentiles.
//! - [`record`]: one row, as JSON or as a line of a table.
//! - [`limits`]: the machine alone.
//! - `versus`: a graph and its limit, alternating.
//! - `fixed`: processes on chosen cores, of `call`. `tcp`: bare TCP. `edges`: edges to another host, of `echo` and `host`.
//! - `shape`: `echo`, `chain`, `fanout`, `payload`, `pipeline`. `compile`, `channel`, `idle`, `allreduce`, `waiting`,
//!   `calls`, `call`, `host`, `map`, `objects`: one case each.

pub mod measure;

pub mod record;
mod served;

pub mod limits;

pub mod versus;

pub mod allreduce;
mod call;
mod calls;
pub mod channel;
mod compile;
mod edges;
mod fixed;
mod host;
mod idle;
mod map;
mod mpi;
mod objects;
mod shape;
mod tcp;
pub mod waiting;

use std::time::Duration;

use crate::args::{BenchArgs, Case, Placement};

/// Runs one case and prints its rows.
///
/// # Errors
/// The case cannot be measured, or the output cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if args.placement == Some(Placement::Host) && !matches!(args.case, Case::Echo | Case::Host) {
        anyhow::bail!(
            "`--placement host` is for `echo`; `host` measures the rest of what goes to another host"
        );
    }
    let mut report = record::Report::stdout(args.json);
    match args.case {
        Case::Limits => limits::run(args, &mut report),
        Case::Echo | Case::Chain | Case::Fanout | Case::Payload | Case::Pipeline => {
            shape::run(args, &mut report)
        }
        Case::Compile => compile::run(args, &mut report),
        Case::Channel => channel::run(args, &mut report),
        Case::Idle => idle::run(args, &mut report),
        Case::Allreduce => allreduce::run(args, &mut report),
        Case::Waiting => waiting::run(args, &mut report),
        Case::Calls => calls::run(args, &mut report),
        Case::Call => call::run(args, &mut report),
        Case::Host => host::run(args, &mut report),
        Case::Map => map::run(args, &mut report),
        Case::Objects => objects::run(args, &mut report),
    }
}

/// Returns the time that each repeat of a row may take.
fn budget(args: &BenchArgs) -> Duration {
    Duration::from_secs_f64(args.seconds / measure::REPEATS as f64)
}
