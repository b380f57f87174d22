//! The behaviour of `Wait::Auto` when threads and cores do not match: fresh starts of small loops, beside idle cores
//! and beside another busy process.
//!
//! The cores on which the scheduler puts two threads when a program starts, and whether it moves them, differ from
//! start to start. So one sample is a fresh process that runs its loop for a window of 50 ms from the first execution
//! on; a row is the median and the slowest tenth of many starts.
//!
//! On a virtual machine the host moves the cores as well, and an exchange between cores of different caches takes
//! several times as long. So the machine's own exchange, of two cache lines between spinning threads, is measured
//! before each start, and has a row of its own.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use selvedge::{Runtime, Worker};

use super::limits::Limit;
use super::measure::Summary;
use super::record::{Record, Report};
use super::served::returns;
use super::versus::placement;
use crate::args::{BenchArgs, Loop, Placement, Wait, WaitingStartArgs};
use crate::shapes::{Drive, Setup, graphs};

/// The time for which a start runs its loop.
const WINDOW: Duration = Duration::from_millis(50);

/// The time for which the machine's own exchange is measured before a start.
const EXCHANGE: Duration = Duration::from_millis(5);

/// The number of other processes that keep a core busy, in each half of the table.
const NEIGHBOURS: [u32; 2] = [0, 1];

/// A process that keeps one core busy until it is dropped.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg("waiting-neighbour").stdin(Stdio::piped());
        Ok(Neighbour(command.spawn().context("a busy process")?))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps a core busy until the parent process ends.
pub fn keep_busy() {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}

/// Calls of a remote function in a worker.
struct Calls {
    runtime: Runtime,
    worker: Worker,
}

impl Calls {
    fn start(wait: selvedge::Wait) -> anyhow::Result<Self> {
        let runtime = match wait {
            selvedge::Wait::Park => Runtime::new().spin_limit(Duration::ZERO),
            _ => Runtime::new(),
        };
        let worker = runtime.worker("calls")?;
        Ok(Calls { runtime, worker })
    }

    fn once(&self) -> anyhow::Result<()> {
        self.runtime.call(returns::remote(8).on(&self.worker)).wait()?;
        Ok(())
    }
}

/// Runs one loop for a window and prints the mean nanoseconds of one execution, averaged over all callers.
///
/// # Errors
/// The graph does not compile, or an execution fails.
pub fn start(args: &WaitingStartArgs) -> anyhow::Result<()> {
    let setup = Setup::new(args.placement.into(), args.wait.into());
    let build = match args.shape {
        Loop::Stage => graphs::stage,
        Loop::Echo | Loop::Callers | Loop::Graphs | Loop::Together => graphs::chain,
    };
    let (graphs, callers) = match args.shape {
        Loop::Echo | Loop::Stage => (1, 1),
        Loop::Callers => (1, 2),
        Loop::Graphs | Loop::Together => (2, 1),
    };
    let calls = (args.shape == Loop::Together)
        .then(|| Calls::start(args.wait.into()))
        .transpose()?;
    let graphs: Vec<Box<dyn Drive>> = (0..graphs)
        .map(|_| build(&setup))
        .collect::<anyhow::Result<_>>()?;
    let end = Instant::now() + WINDOW;
    let mean_ns = |once: &dyn Fn() -> anyhow::Result<()>| -> anyhow::Result<f64> {
        let (begun, mut executions) = (Instant::now(), 0_u32);
        loop {
            once()?;
            executions += 1;
            let now = Instant::now();
            if now >= end {
                return Ok(now.duration_since(begun).as_nanos() as f64 / f64::from(executions));
            }
        }
    };
    let all = std::thread::scope(|scope| {
        let callers: Vec<_> = graphs
            .iter()
            .flat_map(|graph| (0..callers).map(move |_| graph))
            .skip(1)
            .map(|graph| scope.spawn(|| mean_ns(&|| graph.once())))
            .chain(
                calls
                    .iter()
                    .map(|calls| scope.spawn(|| mean_ns(&|| calls.once()))),
            )
            .collect();
        let own = graphs.first().map(|graph| mean_ns(&|| graph.once()));
        let others = callers.into_iter().map(|caller| {
            let joined = caller.join();
            joined.unwrap_or_else(|_| Err(anyhow::anyhow!("a caller panicked")))
        });
        own.into_iter()
            .chain(others)
            .collect::<anyhow::Result<Vec<f64>>>()
    })?;
    // The harmonic mean counts the executions of all callers together, however they are shared among the callers.
    println!(
        "{}",
        all.len() as f64 / all.iter().map(|ns| 1.0 / ns).sum::<f64>()
    );
    Ok(())
}

fn started(shape: Loop, placement: Placement, wait: Wait) -> anyhow::Result<f64> {
    let done = Command::new(std::env::current_exe()?)
        .arg("waiting-start")
        .args([
            "--shape",
            &shape.to_string(),
            "--placement",
            &placement.to_string(),
        ])
        .args(["--wait", &wait.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("a start of the measured loop")?;
    anyhow::ensure!(
        done.status.success(),
        "a start of the measured loop: {}",
        done.status
    );
    let text = String::from_utf8_lossy(&done.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("a start printed `{text}`"))
}

fn summary(samples: Vec<f64>, window: Duration) -> Option<Summary> {
    let starts = samples.len() as u32;
    Summary::of_samples(samples, starts.into(), window * starts)
}

/// The measurements of one loop. They alternate, so that a slow moment affects all of them.
struct Measured {
    own: Summary,
    parked: Summary,
    /// The machine's own exchange; `None` beside a busy process, and on a machine with one core.
    exchange: Option<Summary>,
}

impl Measured {
    fn new(args: &BenchArgs, shape: Loop, wait: Wait, neighbours: u32) -> anyhow::Result<Self> {
        let placement = placement(args);
        let (mut own, mut parked, mut exchanges) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.starts {
            if neighbours == 0 {
                let exchange = Limit::CacheLineTwoLines.measure(placement, 8, EXCHANGE);
                exchanges.extend(exchange.ok().map(|it| it.p50_ns));
            }
            own.push(started(shape, placement, wait)?);
            parked.push(started(shape, placement, Wait::Park)?);
        }
        Ok(Measured {
            own: summary(own, WINDOW).context("no start")?,
            parked: summary(parked, WINDOW).context("no start")?,
            exchange: summary(exchanges, EXCHANGE),
        })
    }
}

/// The subject of a row.
#[derive(Clone, Copy)]
enum Subject {
    /// A loop over a graph, with this way to wait.
    Loop(Wait),
    /// The machine's own exchange, without a graph.
    Exchange,
}

/// The conditions of a measurement, and the summary with which its rows are compared.
struct Conditions<'a> {
    args: &'a BenchArgs,
    shape: Loop,
    neighbours: u32,
    parked: &'a Summary,
}

impl Conditions<'_> {
    fn record(&self, subject: Subject, summary: &Summary) -> Record {
        let (wait, actors, name) = match subject {
            Subject::Loop(wait) => (wait, 1, ""),
            Subject::Exchange => (Wait::Spin, 0, ", the machine's own exchange"),
        };
        let mut record = Record::new(self.args.case, 8, summary)
            .placed(placement(self.args), wait)
            .p90(summary.p90_ns);
        record.actors = actors;
        record.per_second = (1e10 / summary.p50_ns).round() / 10.0;
        record.bytes_per_second = record.per_second * 8.0;
        record.stage = Some(self.shape.to_string());
        record.neighbours = Some(self.neighbours);
        let (limit, limit_ns) = match self.neighbours {
            0 => ("median", summary.p50_ns),
            _ => ("park", self.parked.p90_ns),
        };
        let limit = format!(
            "{}, {} busy{name}: slowest tenth to {limit}",
            self.shape, self.neighbours
        );
        record.against(&limit, limit_ns, summary.p90_ns / limit_ns)
    }
}

/// Prints a row for every loop and way to wait, without and with a busy process beside it, and one row for the
/// machine's own exchange, measured between the starts of each loop. Without a busy process the ratio is that of the
/// slowest tenth to the median; with one, it is that of the slowest tenth to the slowest tenth of `park`.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let wait = args.wait.unwrap_or(Wait::Auto);
    for neighbours in NEIGHBOURS {
        let _busy = (0..neighbours)
            .map(|_| Neighbour::start())
            .collect::<anyhow::Result<Vec<_>>>()?;
        for shape in [
            Loop::Echo,
            Loop::Stage,
            Loop::Callers,
            Loop::Graphs,
            Loop::Together,
        ] {
            let Measured {
                own,
                parked,
                exchange,
            } = Measured::new(args, shape, wait, neighbours)?;
            let conditions = Conditions {
                args,
                shape,
                neighbours,
                parked: &parked,
            };
            report.row(&conditions.record(Subject::Loop(wait), &own))?;
            report.row(&conditions.record(Subject::Loop(Wait::Park), &parked))?;
            if let Some(exchange) = &exchange {
                report.row(&conditions.record(Subject::Exchange, exchange))?;
            }
        }
    }
    Ok(())
}
