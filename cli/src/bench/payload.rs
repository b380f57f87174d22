//! Bytes there, every one of them read, and their sum back. On a thread values move by pointer and nothing is copied,
//! so that the hand-off floor, which has a copy in it, can be undercut there.

use std::io::Write;

use super::record::Report;
use super::versus::{Floor, Measure, Versus, setup};
use crate::args::BenchArgs;
use crate::shapes::{Setup, graphs};

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = Setup {
        actors: 1,
        ..setup(args, 1 << 20, 1)
    };
    let floor = Floor::HandOff;
    Versus {
        args,
        setup,
        build: graphs::payload,
        measure: Measure::Latency,
        floor,
    }
    .run(report)
}
