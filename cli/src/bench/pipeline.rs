//! Actors in a row with several executions going at once: the distance between one result and the next.

use std::io::Write;

use super::record::Report;
use super::versus::{Floor, Measure, Versus, setup};
use crate::args::BenchArgs;
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        inflight: args.inflight as usize,
        ..setup(args, 8, 2)
    };
    let floor = Floor::None;
    Versus {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Throughput,
        floor,
    }
    .run(report)
}
