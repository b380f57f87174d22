//! One value to several actors at once, one execution at a time. With a core for everybody it takes one round trip.

use std::io::Write;

use super::record::Report;
use super::versus::{Floor, Measure, Versus, setup};
use crate::args::BenchArgs;
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let floor = Floor::RoundTrips(1.0);
    Versus {
        args,
        setup,
        build: graphs::fanout,
        measure: Measure::Latency,
        floor,
    }
    .run(report)
}
