//! Calls of a remote function in a worker process, beside servers in workers of their own, over a Unix socket each: one
//! that blocks, and one made of tokio and postcard.
//!
//! - `one`: one call after the other, 8 bytes there and back; once as by default, once with threads that sleep at once. `limit` is the
//!   blocking server. The calls as by default have a second row, whose `limit` is `echo`: a graph of one actor in another process, 8 bytes
//!   there and back, with lanes that spin.
//! - `one_apart`: one call after the other, with a pause of 1 ms before each, so that both processes sleep when it begins. `limit` is
//!   the blocking server, with pauses too.
//! - `tokio_postcard`, `tokio_postcard_apart`: the server of tokio and postcard, beside the same limits.
//! - `…_two_cores`, `…_one_core`: one call after the other with threads that sleep at once, and the server of tokio and postcard, while
//!   each process stays on a core of its own, and while all stay on one. In the other rows the scheduler chooses the cores: if it keeps
//!   two processes on one core, a message takes a tenth of the time, because no core has to be woken. The calls have a second row, whose
//!   `limit` is `futex`: two processes on the same cores that wake each other at every message.
//! - `in_flight`: 256 calls at a time; times are those of all, divided by their number. No limit.
//! - `large`: a tensor there, 8 bytes back. `limit` is the blocking server, which gets as many bytes.
//!
//! By default a thread that waits for an answer looks for it for a while before it sleeps, if each process can have a core.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use selvedge::MemberState;
use selvedge::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixed::Fixed;
use super::limits::Limit;
use super::limits::cores::Cores;
use super::measure::{REPEATS, measure, measure_apart};
use super::record::Report;
use super::served::{Blocking, Calls, connected, row, serve};
use super::versus::{Measure, Row};
use crate::args::{BenchArgs, Placement, Wait};
use crate::shapes::{Setup, graphs};

/// The pause before a call, longer than anybody looks for bytes before it sleeps.
const PAUSE: Duration = Duration::from_millis(1);
/// Connects to `path` and answers each message of `bytes` bytes with 8 bytes, until the peer closes its end.
#[remote]
fn serves_blocking(path: &str, bytes: u64) -> Result<()> {
    serve(UnixStream::connect(path)?, bytes)
}

#[derive(Serialize, Deserialize)]
struct Request {
    number: u64,
    function: String,
    argument: u64,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    number: u64,
    result: std::result::Result<u64, String>,
}

/// Connects to `path` and answers requests as a small server of tokio and postcard does, until the peer closes its end.
#[remote]
fn serves_tokio(path: &str) -> Result<()> {
    reactor()?.block_on(async {
        let mut peer = tokio::net::UnixStream::connect(path).await?;
        while let Ok(request) = received::<Request>(&mut peer).await {
            let result = match request.function.as_str() {
                "returns" => Ok(request.argument),
                other => Err(format!("no function `{other}`")),
            };
            let number = request.number;
            sent(&mut peer, &Answer { number, result }).await?;
        }
        Ok(())
    })
}

fn reactor() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()
}

/// Writes a message behind its length.
async fn sent(peer: &mut tokio::net::UnixStream, message: &impl Serialize) -> Result<()> {
    let body = postcard::to_stdvec(message)?;
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend(body);
    Ok(peer.write_all(&frame).await?)
}

async fn received<M: for<'de> Deserialize<'de>>(peer: &mut tokio::net::UnixStream) -> Result<M> {
    let mut body = vec![0; peer.read_u32_le().await? as usize];
    peer.read_exact(&mut body).await?;
    Ok(postcard::from_bytes(&body)?)
}

/// The folder of the sockets, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("selvedge-call-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Has `start` start a server, which connects to the path that `start` gets, and waits for the connection.
    fn server(
        &self,
        name: &str,
        start: impl FnOnce(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<UnixStream> {
        let path = self.0.join(name);
        let listener = UnixListener::bind(&path)?;
        start(&path.to_string_lossy())?;
        connected(&listener, name)?;
        Ok(listener.accept()?.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints the case's rows.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let budget = super::budget(args);
    let runtime = Runtime::new();
    let worker = runtime.worker("calls")?;
    let sleepy = Runtime::new().spin_limit(Duration::ZERO);
    let sleeper = sleepy.worker("sleeps")?;
    // The servers are processes too, and would count among those that need a core.
    let alone = Runtime::new();
    let only = alone.worker("many")?;
    let folder = Folder::new()?;
    // A server occupies its worker.
    let serve = |name: &str, bytes| -> anyhow::Result<Blocking<UnixStream>> {
        let server = runtime.worker(name)?;
        let start = |path: &str| Ok(runtime.cast(serves_blocking::remote(path, bytes).on(&server))?);
        Ok(Blocking::new(folder.server(name, start)?, bytes, server))
    };
    let mut small = serve("small", 8)?;
    let server = runtime.worker("tokio")?;
    let accepted = folder.server("tokio", |path| {
        Ok(runtime.cast(serves_tokio::remote(path).on(&server))?)
    })?;
    accepted.set_nonblocking(true)?;
    let reactor = reactor()?;
    let mut peer = {
        let _entered = reactor.enter();
        tokio::net::UnixStream::from_std(accepted)?
    };

    let calls = Calls {
        args,
        runtime: &runtime,
        worker: &worker,
        limit: "socket",
    };
    let parked_calls = Calls {
        runtime: &sleepy,
        worker: &sleeper,
        ..calls
    };
    let many_calls = Calls {
        runtime: &alone,
        worker: &only,
        ..calls
    };
    let mut number = 0;
    let mut ask_tokio = || -> Result<()> {
        number += 1;
        let (function, argument) = ("returns".to_owned(), number);
        reactor.block_on(async {
            sent(
                &mut peer,
                &Request {
                    number,
                    function,
                    argument,
                },
            )
            .await?;
            let answer: Answer = received(&mut peer).await?;
            answer.result.map(drop).map_err(|error| error.into())
        })
    };
    let mut ask_tokio = || ask_tokio().map_err(|error| anyhow::anyhow!("{error}"));
    let graph = Row {
        args,
        setup: Setup::new(Placement::Process.into(), Wait::Spin.into()),
        build: graphs::chain,
        measure: Measure::Latency,
        limit: None,
    };
    // Lanes that spin need a core each.
    let has_two_cores = Cores::Two.pair().is_ok();
    let (mut one, mut parked, mut tokio, mut limit) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut one_apart, mut tokio_apart, mut limit_apart) = (Vec::new(), Vec::new(), Vec::new());
    let (mut echo, mut in_flight) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        if has_two_cores {
            echo.push(graph.measured(budget)?);
        }
        limit.push(measure(budget, || small.ask())?);
        tokio.push(measure(budget, &mut ask_tokio)?);
        one.push(measure(budget, || calls.one())?);
        parked.push(measure(budget, || parked_calls.one())?);
        limit_apart.push(measure_apart(budget, PAUSE, || small.ask())?);
        tokio_apart.push(measure_apart(budget, PAUSE, &mut ask_tokio)?);
        one_apart.push(measure_apart(budget, PAUSE, || calls.one())?);
        in_flight.push(many_calls.many()?);
    }
    for (mode, wait, found, limit) in [
        ("one", Wait::Auto, &one, &limit),
        ("one", Wait::Park, &parked, &limit),
        ("tokio_postcard", Wait::Park, &tokio, &limit),
        ("one_apart", Wait::Auto, &one_apart, &limit_apart),
        ("tokio_postcard_apart", Wait::Park, &tokio_apart, &limit_apart),
    ] {
        let row = row(args, mode, 8, found, Some(("socket", limit)))?;
        report.row(&row.placed(Placement::Process, wait))?;
    }
    if has_two_cores {
        report.row(&row(args, "one", 8, &one, Some(("echo", &echo)))?)?;
    }
    let answering = [&runtime, &sleepy].map(workers_of).concat();
    for (suffix, cores, wake) in [
        ("two_cores", Cores::Two, Limit::FutexTwoCores),
        ("one_core", Cores::One, Limit::FutexOneCore),
    ] {
        // A machine of one core has no rows for two.
        let Ok(pair) = cores.pair() else { continue };
        let [mut ours, mut tokio, mut limit, mut wakes] = [const { Vec::new() }; 4];
        for _ in 0..REPEATS {
            wakes.push(wake.measure(Placement::Process, 8, budget)?);
            let _fixed = Fixed::new(pair, &answering)?;
            limit.push(measure(budget, || small.ask())?);
            tokio.push(measure(budget, &mut ask_tokio)?);
            ours.push(measure(budget, || parked_calls.one())?);
        }
        for (mode, found, name, beside) in [
            ("one", &ours, "socket", &limit),
            ("one", &ours, "futex", &wakes),
            ("tokio_postcard", &tokio, "socket", &limit),
        ] {
            let mode = format!("{mode}_{suffix}");
            let row = row(args, &mode, 8, found, Some((name, beside)))?;
            report.row(&row.placed(Placement::Process, Wait::Park))?;
        }
    }
    calls.report_many(&in_flight, report)?;
    calls.large(&mut serve("large", Calls::large_bytes(args))?, report)
}

/// The pids of the workers of a runtime that run.
fn workers_of(runtime: &Runtime) -> Vec<u32> {
    let living = runtime
        .members()
        .into_iter()
        .filter(|it| it.state == MemberState::Lives);
    living.filter_map(|it| it.pid).collect()
}
