//! Graphs of a few actors: one execution at a time, but for `pipeline`.
//!
//! - `echo`: one actor that returns its argument: a full round trip. An actor on another host has rows of its own ([`edges`]).
//! - `chain`: actors in a row. A chain over N lanes has N + 1 hops between lanes, each of which takes at least half a round trip.
//! - `fanout`: one value to several actors at once. With a core for every lane it takes one round trip.
//! - `payload`: a payload to one actor that reads every byte and returns their sum. On a thread, values move by pointer without a
//!   copy, so this case can be faster than the hand-off floor, which includes a copy.
//! - `pipeline`: actors in a row with several executions in flight: the time between one result and the next.

use std::io::Write;

use super::edges;
use super::limits::Limit;
use super::record::Report;
use super::versus::{Measure, Row, round_trip, setup};
use crate::args::{BenchArgs, Case, Placement, Wait};
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    if args.placement == Some(Placement::Host) {
        let both = [Wait::Park, Wait::Spin];
        let waits = args.wait.as_ref().map_or(&both[..], std::slice::from_ref);
        return edges::run(args, waits, report);
    }
    let mut setup = match args.case {
        Case::Payload => setup(args, 1 << 20, 1),
        Case::Pipeline => setup(args, 8, 2),
        _ => setup(args, 8, 4),
    };
    if matches!(args.case, Case::Echo | Case::Payload) {
        setup.actors = 1;
    }
    let round_trips = |count| round_trip(args, &setup).map(|limit| (limit, count));
    let limit = match args.case {
        Case::Pipeline => None,
        Case::Payload => (args.placement != Some(Placement::Inline)).then_some((Limit::HandOff, 1.0)),
        Case::Chain => round_trips((setup.lanes_of(setup.actors) as f64 + 1.0) / 2.0),
        _ => round_trips(1.0),
    };
    let mut measure = Measure::Latency;
    if args.case == Case::Pipeline {
        (setup.inflight, measure) = (args.inflight as usize, Measure::Throughput);
    }
    Row {
        args,
        setup,
        build: match args.case {
            Case::Fanout => graphs::fanout,
            Case::Payload => graphs::payload,
            _ => graphs::chain,
        },
        measure,
        limit,
    }
    .run(report)
}
