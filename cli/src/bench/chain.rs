//! Actors in a row, one execution at a time. A chain of N has N + 1 hops, and each is half a round trip at best.

use std::io::Write;

use super::record::Report;
use super::versus::{Floor, Measure, Versus, setup};
use crate::args::BenchArgs;
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let floor = Floor::RoundTrips((setup.actors as f64 + 1.0) / 2.0);
    Versus {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Latency,
        floor,
    }
    .run(report)
}
