//! Actors in a row, one execution at a time. A chain over N lanes has N + 1 hops between lanes, each of which takes at
//! least half a round trip.

use std::io::Write;

use super::record::Report;
use super::versus::{Measure, Row, round_trip, setup};
use crate::args::BenchArgs;
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let limit =
        round_trip(args, &setup).map(|limit| (limit, (setup.lanes_of(setup.actors) as f64 + 1.0) / 2.0));
    Row {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Latency,
        limit,
    }
    .run(report)
}
