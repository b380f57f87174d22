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
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    if args.placement == Some(Placement::Host) {
        let both = [Wait::Park, Wait::Spin];
        let waits = args.wait.as_ref().map_or(&both[..], std::slice::from_ref);
        return edges::run(args, waits, report);
    }
    let round_trips = |setup: &Setup, count: f64| round_trip(args, setup).map(|limit| (limit, count));
    let one_actor = |bytes| Setup {
        actors: 1,
        ..setup(args, bytes, 1)
    };
    let (setup, build, limit): (Setup, fn(&Setup) -> _, _) = match args.case {
        Case::Chain => {
            let setup = setup(args, 8, 4);
            let count = (setup.lanes_of(setup.actors) as f64 + 1.0) / 2.0;
            (setup, graphs::chain, round_trips(&setup, count))
        }
        Case::Fanout => {
            let setup = setup(args, 8, 4);
            (setup, graphs::fanout, round_trips(&setup, 1.0))
        }
        Case::Payload => {
            let copies = args.placement != Some(Placement::Inline);
            (
                one_actor(1 << 20),
                graphs::payload,
                copies.then_some((Limit::HandOff, 1.0)),
            )
        }
        Case::Pipeline => {
            let inflight = args.inflight as usize;
            (
                Setup {
                    inflight,
                    ..setup(args, 8, 2)
                },
                graphs::chain,
                None,
            )
        }
        _ => {
            let setup = one_actor(8);
            (setup, graphs::chain, round_trips(&setup, 1.0))
        }
    };
    let measure = match args.case {
        Case::Pipeline => Measure::Throughput,
        _ => Measure::Latency,
    };
    Row {
        args,
        setup,
        build,
        measure,
        limit,
    }
    .run(report)
}
