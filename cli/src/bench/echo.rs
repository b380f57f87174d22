//! One actor that returns its argument, one execution at a time: a full round trip.

use std::io::Write;

use super::record::Report;
use super::versus::{Measure, Row, round_trip, setup};
use crate::args::BenchArgs;
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        actors: 1,
        ..setup(args, 8, 1)
    };
    let limit = round_trip(args, &setup).map(|limit| (limit, 1.0));
    Row {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Latency,
        limit,
    }
    .run(report)
}
