//! One actor that returns its argument, one execution at a time: a full round trip. An actor on another host has rows of its
//! own ([`edges`]).

use std::io::Write;

use super::edges;
use super::record::Report;
use super::versus::{Measure, Row, round_trip, setup};
use crate::args::{BenchArgs, Placement, Wait};
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    if args.placement == Some(Placement::Host) {
        let both = [Wait::Park, Wait::Spin];
        let waits = args.wait.as_ref().map_or(&both[..], std::slice::from_ref);
        return edges::run(args, waits, report);
    }
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
