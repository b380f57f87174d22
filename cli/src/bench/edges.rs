//! Edges of graphs to another host, beside bare TCP over the same interface. A worker that is reached over TCP plays the host, so a
//! connection costs what the loopback interface costs.
//!
//! - `edge`: an execution of a graph, 8 bytes to an actor on another host and back. `limit` is a server over TCP that waits as the
//!   lanes do, in the kernel or by looking again and again.
//! - `edge_large`: a tensor there and 8 bytes back, after as many executions as the edge has slots, whose memory is fresh before.
//!   `limit` is the server, which gets as many bytes.
//!
//! A limit and its graph alternate, and neither exists while the other is measured if they spin.

use std::io::Write;
use std::num::NonZeroU16;

use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{DType, Worker};

use super::measure::{REPEATS, Summary, measure};
use super::record::Report;
use super::served::{Blocking, Calls, row};
use super::tcp::{Ends, TcpEnd};
use crate::args::{BenchArgs, Placement, Wait};
use crate::shapes::actors::{Echo, Reader};

/// The slots of the edge of `edge_large`: one is read while the next one is filled.
const LARGE_SLOTS: usize = 2;

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

/// The edges that are measured, and the way in which their lanes wait.
struct Edges<'a> {
    args: &'a BenchArgs,
    wait: Wait,
    runtime: &'a Runtime,
    worker: &'a Worker,
}

impl Edges<'_> {
    fn options(&self) -> Options {
        Options::new().wait(self.wait.into())
    }

    /// Measures the server of messages of so many bytes. It stays for the next repeat, unless it spins.
    fn limit(&self, server: &mut Option<Blocking<TcpEnd>>, bytes: u64) -> anyhow::Result<Summary> {
        let ends = Ends::of(self.wait);
        let mut asked = match server.take() {
            Some(server) => server,
            None => ends.server(self.runtime, "server", bytes)?,
        };
        asked.ask()?;
        let found = measure(super::budget(self.args), || asked.ask());
        *server = Some(asked).filter(|_| ends == Ends::Block);
        found
    }

    fn small(&self) -> anyhow::Result<Summary> {
        let echo = self.runtime.spawn::<Echo>("echo", ()).in_worker(self.worker)?;
        let graph = self
            .runtime
            .compile_with(self.options(), |x: Edge<u64>| echo.word(&x))?;
        graph.run(8)?;
        measure(super::budget(self.args), || Ok(graph.run(8).map(drop)?))
    }

    fn large(&self, bytes: usize) -> anyhow::Result<Summary> {
        let tensor = Tensor::from_raw(DType::U8, &[bytes], &vec![0; bytes])?;
        let reader = self
            .runtime
            .spawn::<Reader>("reader", ())
            .in_worker(self.worker)?;
        let options = self.options().slots(LARGE_SLOTS);
        let graph = self
            .runtime
            .compile_with(options, |x: Edge<Tensor>| reader.length(&x))?;
        for _ in 0..2 * LARGE_SLOTS {
            graph.run(tensor.clone())?;
        }
        measure(super::budget(self.args), || {
            Ok(graph.run(tensor.clone()).map(drop)?)
        })
    }

    fn rows<W: Write>(&self, report: &mut Report<W>) -> anyhow::Result<()> {
        let large = Calls::large_bytes(self.args);
        let [mut found, mut limit] = [(); 2].map(|()| Vec::new());
        let mut server = None;
        for _ in 0..REPEATS {
            limit.push(self.limit(&mut server, 8)?);
            found.push(self.small()?);
        }
        let small = row(self.args, "edge", 8, &found, Some(("tcp", &limit)))?;
        report.row(&small.placed(Placement::Host, self.wait))?;
        found.clear();
        limit.clear();
        server = None;
        for _ in 0..REPEATS {
            limit.push(self.limit(&mut server, large)?);
            found.push(self.large(large as usize)?);
        }
        let long = row(self.args, "edge_large", large, &found, Some(("tcp", &limit)))?;
        report.row(&long.placed(Placement::Host, self.wait))
    }
}

/// Prints the rows, for lanes that wait in each of these ways.
pub(super) fn run<W: Write>(args: &BenchArgs, waits: &[Wait], report: &mut Report<W>) -> anyhow::Result<()> {
    let runtime = Runtime::new();
    let workers = runtime.add(Elsewhere)?;
    let worker = workers
        .first()
        .ok_or_else(|| anyhow::anyhow!("no worker was added"))?;
    for wait in waits {
        let edges = Edges {
            args,
            wait: *wait,
            runtime: &runtime,
            worker,
        };
        edges.rows(report)?;
    }
    Ok(())
}
