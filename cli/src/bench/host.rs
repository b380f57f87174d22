//! A worker that is reached over TCP, as those of other hosts are, beside servers over TCP in workers of their own. All of them are
//! on this host, so a connection costs what the loopback interface costs.
//!
//! - `one`: one call after the other, 8 bytes there and back. `limit` is a blocking server over TCP.
//! - `in_flight`: 256 calls at a time; times are those of all, divided by their number. No limit.
//! - `large`: a tensor there, 8 bytes back. `limit` is the blocking server, which gets as many bytes.
//! - `edge`, `edge_large`: the rows of `echo --placement host`, with lanes that park.
//! - `spawn`: an actor is built there, and is dropped. No limit.
//! - `join`: a worker is started, joins, and is told to end. No limit.
//!
//! Calls park: there is no other way to wait for one.

use std::io::Write;
use std::num::NonZeroU16;
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::LocalManager;
use selvedge::prelude::*;

use super::edges;
use super::measure::{REPEATS, measure};
use super::record::Report;
use super::served::{Calls, row};
use super::tcp::Ends;
use crate::args::{BenchArgs, Wait};
use crate::shapes::actors::Echo;

/// The time that a worker gets to end.
const END_GRACE: Duration = Duration::from_secs(10);

/// Prints the case's rows.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let budget = super::budget(args);
    let runtime = Runtime::new();
    let add = || -> anyhow::Result<Worker> {
        let added = runtime.add(LocalManager::workers(NonZeroU16::MIN))?;
        added
            .into_iter()
            .next()
            .ok_or_else(|| anyhow::anyhow!("no worker was added"))
    };
    let worker = add()?;
    let calls = Calls {
        args,
        runtime: &runtime,
        worker: &worker,
        limit: "tcp",
    };
    let mut small = Ends::Block.server(&runtime, "small", 8)?;
    let (mut one, mut limit, mut in_flight) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        limit.push(measure(budget, || small.ask())?);
        one.push(measure(budget, || calls.one())?);
        in_flight.push(calls.many()?);
    }
    report.row(&row(args, "one", 8, &one, Some(("tcp", &limit)))?)?;
    calls.report_many(&in_flight, report)?;
    let mut raw = Ends::Block.server(&runtime, "large", Calls::large_bytes(args))?;
    calls.large(&mut raw, report)?;
    drop((small, raw));
    edges::run(args, &[Wait::Park], report)?;

    let (mut spawn, mut join) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        spawn.push(measure(budget, || {
            drop(runtime.spawn::<Echo>("echo", ()).in_worker(&worker)?);
            Ok(())
        })?);
        join.push(measure(budget, || Ok(add()?.end(END_GRACE)?))?);
    }
    report.row(&row(args, "spawn", 0, &spawn, None)?)?;
    report.row(&row(args, "join", 0, &join, None)?)
}
