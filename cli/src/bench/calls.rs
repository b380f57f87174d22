//! Actors in a row, run by a graph and by plain calls of the same actors, alternating.
//!
//! Both sides spawn the same actors in the same places and give the first actor a value that the driver makes anew;
//! each actor returns its argument. The graph passes the value from actor to actor in one execution. With calls, the
//! driver waits for each actor's result and calls the next actor with it, as a program without graphs does. `limit_ns`
//! is the time of the calls; a ratio below 1 is the gain of the graph.

use std::io::Write;

use super::measure::{REPEATS, Summary};
use super::record::{Record, Report};
use super::versus::{Measure, Row, median_ratio, placement, setup, wait};
use crate::args::BenchArgs;
use crate::shapes::graphs;

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let budget = super::budget(args);
    let row = |build| Row {
        args,
        setup,
        build,
        measure: Measure::Latency,
        limit: None,
    };
    let (graph, calls) = (row(graphs::chain), row(graphs::calls));
    let (mut found, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        plain.push(calls.measured(budget)?);
        found.push(graph.measured(budget)?);
    }
    let nothing = || anyhow::anyhow!("nothing was measured");
    let summary = Summary::median(&found).ok_or_else(nothing)?;
    let by_calls = Summary::median(&plain).ok_or_else(nothing)?;
    let mut record = Record::new(args.case, setup.payload_bytes as u64, &summary)
        .placed(placement(args), wait(args))
        .against("plain_calls", by_calls.p50_ns, median_ratio(&found, &plain));
    record.actors = setup.actors as u32;
    report.row(&record)
}
