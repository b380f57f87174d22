//! One actor that returns what it gets, one execution at a time: the whole way there and back.

use std::io::Write;

use super::record::Report;
use super::versus::{Floor, Measure, Versus, setup};
use crate::args::BenchArgs;
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        actors: 1,
        ..setup(args, 8, 1)
    };
    let floor = Floor::RoundTrips(1.0);
    Versus {
        args,
        setup,
        build: graphs::chain,
        measure: Measure::Latency,
        floor,
    }
    .run(report)
}
