//! Actors in a row with several executions in flight: the time between one result and the next.

use std::io::Write;

use super::record::Report;
use super::versus::{Measure, Row, setup};
use crate::args::BenchArgs;
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        inflight: args.inflight as usize,
        ..setup(args, 8, 2)
    };
    Row {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Throughput,
        limit: None,
    }
    .run(report)
}
