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

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{DType, Worker};

use super::call::{IN_FLIGHT, LARGE_BYTES, counts, each, returns, row};
use super::measure::{REPEATS, measure};
use super::record::Report;
use crate::args::BenchArgs;
use crate::shapes::actors::{Echo, Reader};

/// The time that a server may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// The time that a worker gets to end.
const END_GRACE: Duration = Duration::from_secs(10);

/// Connects to a port and answers each message of `bytes` bytes with 8 bytes, until the peer closes its end.
#[remote]
fn serves_tcp(port: u16, bytes: u64) -> Result<()> {
    let mut peer = TcpStream::connect(("127.0.0.1", port))?;
    peer.set_nodelay(true)?;
    let mut message = vec![0; bytes as usize];
    while peer.read_exact(&mut message).is_ok() {
        peer.write_all(message.get(..8).unwrap_or_default())?;
    }
    Ok(())
}

/// A client of the blocking server.
struct Blocking {
    stream: TcpStream,
    message: Vec<u8>,
    /// The server's worker, which ends with its handle.
    _server: Worker,
}

impl Blocking {
    /// Has a worker of its own serve messages of so many bytes.
    fn new(runtime: &Runtime, name: &str, bytes: u64) -> anyhow::Result<Self> {
        let server = runtime.worker(name)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        runtime.cast(serves_tcp::remote(listener.local_addr()?.port(), bytes).on(&server))?;
        let limit = Timespec::try_from(CONNECT_MAX)?;
        let mut fds = [PollFd::new(&listener, PollFlags::IN)];
        if poll(&mut fds, Some(&limit))? == 0 {
            anyhow::bail!("the server `{name}` has not connected within {CONNECT_MAX:?}");
        }
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(Blocking {
            stream,
            message: vec![0; bytes as usize],
            _server: server,
        })
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        let mut answer = [0; 8];
        self.stream.write_all(&self.message)?;
        Ok(self.stream.read_exact(&mut answer)?)
    }
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
    small: &mut Blocking,
    raw: &mut Blocking,
) -> anyhow::Result<()> {
    let budget = super::budget(args);
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere)?;
    let worker = workers
        .first()
        .ok_or_else(|| anyhow::anyhow!("no worker was added"))?;
    let large = raw.message.len();
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
    report.row(&row(args, "edge", 8, &one, Some(("tcp", &one_limit)))?)?;
    let limit = Some(("tcp", long_limit.as_slice()));
    report.row(&row(args, "edge_large", large as u64, &long, limit)?)
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
    let large = args.payload.unwrap_or(LARGE_BYTES).max(8);
    let mut small = Blocking::new(&runtime, "small", 8)?;
    let (mut one, mut limit, mut in_flight) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        limit.push(measure(budget, || small.ask())?);
        one.push(measure(budget, || {
            runtime.call(returns::remote(8).on(&worker)).wait()?;
            Ok(())
        })?);
        in_flight.push(each(measure(budget, || {
            let calls: Vec<_> = (0..IN_FLIGHT)
                .map(|x| runtime.call(returns::remote(x as u64).on(&worker)))
                .collect();
            calls.into_iter().try_for_each(|call| call.wait().map(drop))?;
            Ok(())
        })?));
    }
    report.row(&row(args, "one", 8, &one, Some(("tcp", &limit)))?)?;
    let mut many = row(args, "in_flight", 8, &in_flight, None)?;
    many.inflight = Some(IN_FLIGHT as u32);
    report.row(&many)?;

    let mut raw = Blocking::new(&runtime, "large", large)?;
    let tensor = Tensor::from_raw(DType::U8, &[large as usize], &vec![0; large as usize])?;
    let (mut found, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        limit.push(measure(budget, || raw.ask())?);
        found.push(measure(budget, || {
            runtime.call(counts::remote(&tensor).on(&worker)).wait()?;
            Ok(())
        })?);
    }
    report.row(&row(args, "large", large, &found, Some(("tcp", &limit)))?)?;
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
