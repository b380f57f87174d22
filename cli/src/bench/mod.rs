//! The cases of `selvedge bench`, one file each, and the way they are measured.
//!
//! - [`measure`]: batches, repeats, percentiles.
//! - [`record`]: one row, as JSON or as a line of a table.
//! - [`checksum`]: reads every byte of a payload.
//! - [`limits`]: the machine alone.

pub mod measure;

pub mod record;

pub mod checksum;

pub mod limits;

use std::time::Duration;

use crate::args::{BenchArgs, Case};

/// Runs one case and prints its rows.
///
/// # Errors
/// What kept the case from being measured, or the output from being written.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let mut report = record::Report::stdout(args.json);
    match args.case {
        Case::Limits => limits::run(args, &mut report),
        other => anyhow::bail!("the case `{other}` needs graphs, which this build has not"),
    }
}

/// What each of the repeats of a row may take.
fn budget(args: &BenchArgs) -> Duration {
    Duration::from_secs_f64(args.seconds / measure::REPEATS as f64)
}
