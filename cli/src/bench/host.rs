//! A worker that is reached over TCP, as those of other hosts are, beside servers over TCP in workers of their own. All of them are
//! on this host, so a connection costs what the loopback interface costs.
//!
//! - `one`: one call after the other, 8 bytes there and back. `limit` is a blocking server over TCP.
//! - `in_flight`: 256 calls at a time; times are those of all, divided by their number. No limit.
//! - `large`: a tensor there, 8 bytes back. `limit` is the blocking server, which gets as many bytes.
//! - `edge`: an execution of a graph, 8 bytes to an actor on another host and back, where such a worker plays the host. `limit` is
//!   the blocking server.
//! - `edge_large`: an execution of a graph, a tensor there and 8 bytes back. `limit` is the blocking server.
//! - `spawn`: an actor is built there, and is dropped. No limit.
//! - `join`: a worker is started, joins, and is told to end. No limit.
//!
//! Calls park: there is no other way to wait for one. The graphs park, too, to be compared with a server that blocks.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::time::Duration;

use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{DType, Worker};

use super::measure::{REPEATS, measure};
use super::record::Report;
use super::served::{Blocking, Calls, connected, row, serve};
use crate::args::{BenchArgs, Placement};
use crate::shapes::actors::{Echo, Reader};

/// The time that a worker gets to end.
const END_GRACE: Duration = Duration::from_secs(10);

/// Connects to a port and answers each message of `bytes` bytes with 8 bytes, until the peer closes its end.
#[remote]
fn serves_tcp(port: u16, bytes: u64) -> Result<()> {
    let peer = TcpStream::connect(("127.0.0.1", port))?;
    peer.set_nodelay(true)?;
    serve(peer, bytes)
}

/// Has a worker of its own serve messages of so many bytes.
fn server(runtime: &Runtime, name: &str, bytes: u64) -> anyhow::Result<Blocking<TcpStream>> {
    let server = runtime.worker(name)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    runtime.cast(serves_tcp::remote(listener.local_addr()?.port(), bytes).on(&server))?;
    connected(&listener, name)?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(Blocking::new(stream, bytes, server))
}

/// A worker that passes for one of another host.
struct Elsewhere;

impl ClusterManager for Elsewhere {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        LocalManager::workers(NonZeroU16::MIN).launch(&mut |mut config| {
            if let Some(command) = config.command.take() {
                config = config.command(command.variable("SELVEDGE_HOST", "elsewhere"));
            }
            out(config);
        })
    }
}

/// Measures edges of graphs to another host.
fn edges<W: Write>(
    args: &BenchArgs,
    report: &mut Report<W>,
    small: &mut Blocking<TcpStream>,
    raw: &mut Blocking<TcpStream>,
) -> anyhow::Result<()> {
    let budget = super::budget(args);
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere)?;
    let worker = workers
        .first()
        .ok_or_else(|| anyhow::anyhow!("no worker was added"))?;
    let large = Calls::large_bytes(args) as usize;
    let tensor = Tensor::from_raw(DType::U8, &[large], &vec![0; large])?;
    let echo = runtime.spawn::<Echo>("echo", ()).in_worker(worker)?;
    let reader = runtime.spawn::<Reader>("reader", ()).in_worker(worker)?;
    let options = || Options::new().wait(Wait::Park);
    let word = runtime.compile_with(options(), |x: Edge<u64>| echo.word(&x))?;
    let length = runtime.compile_with(options(), |x: Edge<Tensor>| reader.length(&x))?;
    let [mut one, mut one_limit, mut long, mut long_limit] = [(); 4].map(|()| Vec::new());
    for _ in 0..REPEATS {
        one_limit.push(measure(budget, || small.ask())?);
        one.push(measure(budget, || Ok(word.run(8).map(drop)?))?);
        long_limit.push(measure(budget, || raw.ask())?);
        long.push(measure(budget, || Ok(length.run(tensor.clone()).map(drop)?))?);
    }
    for (mode, bytes, found, limit) in [
        ("edge", 8, &one, &one_limit),
        ("edge_large", large as u64, &long, &long_limit),
    ] {
        let row = row(args, mode, bytes, found, Some(("tcp", limit)))?;
        report.row(&row.placed(Placement::Process, crate::args::Wait::Park))?;
    }
    Ok(())
}

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
    let mut small = server(&runtime, "small", 8)?;
    let (mut one, mut limit, mut in_flight) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        limit.push(measure(budget, || small.ask())?);
        one.push(measure(budget, || calls.one())?);
        in_flight.push(calls.many()?);
    }
    report.row(&row(args, "one", 8, &one, Some(("tcp", &limit)))?)?;
    calls.report_many(&in_flight, report)?;
    let mut raw = server(&runtime, "large", Calls::large_bytes(args))?;
    calls.large(&mut raw, report)?;
    edges(args, report, &mut small, &mut raw)?;

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
