//! One value to several actors at once, one execution at a time. With a core for every lane it takes one round trip.

use std::io::Write;

use super::record::Report;
use super::versus::{Measure, Row, round_trip, setup};
use crate::args::BenchArgs;
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let limit = round_trip(args, &setup).map(|limit| (limit, 1.0));
    Row {
        args,
        setup,
        build: graphs::fanout,
        measure: Measure::Latency,
        limit,
    }
    .run(report)
}
