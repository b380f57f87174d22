//! A payload to one actor that reads every byte and returns their sum. On a thread, values move by pointer without a
//! copy, so this case can be faster than the hand-off floor, which includes a copy.

use std::io::Write;

use super::limits::Limit;
use super::record::Report;
use super::versus::{Measure, Row, setup};
use crate::args::{BenchArgs, Placement};
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        actors: 1,
        ..setup(args, 1 << 20, 1)
    };
    let limit = (args.placement != Some(Placement::Inline)).then_some((Limit::HandOff, 1.0));
    Row {
        args,
        setup,
        build: graphs::payload,
        measure: Measure::Latency,
        limit,
    }
    .run(report)
}
