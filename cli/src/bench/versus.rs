//! A graph beside the limit that applies to it: they take turns, and neither runs while the other is measured.

use std::io::Write;
use std::time::{Duration, Instant};

use selvedge::Waiting;

use super::limits::{self, Limit};
use super::measure::{self, REPEATS, Summary};
use super::record::{Record, Report};
use crate::args::{BenchArgs, Cores, Placement, Wait};
use crate::shapes::{Drive, Setup};

/// Bytes of a message that fits into the cache line of its signal.
const LINE_BYTES: usize = 56;

/// A shape, how to measure it, and what it is measured against.
pub(crate) struct Versus<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) setup: Setup,
    pub(crate) build: fn(&Setup) -> anyhow::Result<Box<dyn Drive>>,
    pub(crate) measure: Measure,
    pub(crate) floor: Floor,
}

/// What a shape cannot beat.
#[derive(Clone, Copy)]
pub(crate) enum Floor {
    /// That many round trips of a small message.
    RoundTrips(f64),
    /// The payload handed over once.
    HandOff,
    /// Nothing that is measured here.
    None,
}

/// What of a shape is measured.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// One execution at a time.
    Latency,
    /// The distance between results, with several executions going at once.
    Throughput,
}

/// What the command line says of a shape.
pub(crate) fn setup(args: &BenchArgs, payload_bytes: u64, actors: u32) -> Setup {
    Setup {
        placement: placement(args).into(),
        wait: wait(args).into(),
        payload_bytes: args.payload.unwrap_or(payload_bytes) as usize,
        actors: args.actors.unwrap_or(actors) as usize,
        inflight: 1,
    }
}

/// Where the actors run.
pub(crate) fn placement(args: &BenchArgs) -> Placement {
    args.placement.unwrap_or(Placement::Thread)
}

/// How lanes wait.
pub(crate) fn wait(args: &BenchArgs) -> Wait {
    args.wait.unwrap_or(Wait::Auto)
}

impl Versus<'_> {
    /// Prints a row for all cores or for one, as the command line says. Where sides park, for both: the scheduler's
    /// choice between one core and two decides that figure, and the limit beside it may have met with another choice.
    pub(crate) fn run<W: Write>(&self, report: &mut Report<W>) -> anyhow::Result<()> {
        let rows = match (self.args.cores, wait(self.args)) {
            (Some(Cores::One), Wait::Spin) => {
                anyhow::bail!("spinning on one core measures the scheduler alone")
            }
            (Some(cores), _) => vec![cores],
            (None, Wait::Park) => vec![Cores::Any, Cores::One],
            (None, _) => vec![Cores::Any],
        };
        for cores in rows {
            // On a thread of its own, because threads and processes started from it stay on its cores.
            let record = std::thread::scope(|scope| scope.spawn(|| self.row(cores)).join());
            report.row(&record.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))??)?;
        }
        Ok(())
    }

    /// Measures limit and graph in turns and takes the medians.
    fn row(&self, cores: Cores) -> anyhow::Result<Record> {
        if cores == Cores::One {
            limits::cores::pin(limits::cores::pair(cores)?.0)?;
        }
        let budget = super::budget(self.args);
        let floor = self.floor(cores);
        let (mut limits, mut found) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            if let Some((limit, _)) = floor {
                limits.push(limit.measure(placement(self.args), self.setup.payload_bytes, budget));
            }
            // Built anew for every repeat: a compiled graph that spins would take a core from the limit.
            let graph = (self.build)(&self.setup)?;
            found.push(match self.measure {
                Measure::Latency => measure::measure(budget, || graph.once())?,
                Measure::Throughput => throughput(budget, graph.as_ref())?,
            });
        }
        let found = Summary::median(&found).ok_or_else(|| anyhow::anyhow!("nothing was measured"))?;
        let mut record = Record::new(self.args.case, self.setup.payload_bytes as u64, &found)
            .placed(placement(self.args), wait(self.args));
        record.cores = cores.to_string();
        record.actors = self.setup.actors as u32;
        record.inflight = (self.setup.inflight > 1).then_some(self.setup.inflight as u32);
        match limits.into_iter().collect::<anyhow::Result<Vec<_>>>() {
            Ok(limits) => {
                if let (Some((limit, trips)), Some(median)) = (floor, Summary::median(&limits)) {
                    record = record.against(limit.name(), median.p50_ns * trips);
                }
            }
            Err(error) => eprintln!("the limit is left out: {error:#}"),
        }
        Ok(record)
    }

    /// The limit that applies, and how many of its round trips one execution needs at least. None inline, where
    /// nothing leaves the thread, and none for a message that does not fit into the line of its signal.
    fn floor(&self, cores: Cores) -> Option<(Limit, f64)> {
        if placement(self.args) == Placement::Inline {
            return None;
        }
        match (self.floor, cores) {
            (Floor::RoundTrips(_), _) if self.setup.payload_bytes > LINE_BYTES => None,
            (Floor::RoundTrips(trips), Cores::One) => Some((Limit::FutexOneCore, trips)),
            (Floor::RoundTrips(trips), _) if self.spins() => Some((Limit::CacheLineTwoLines, trips)),
            (Floor::RoundTrips(trips), _) => Some((Limit::FutexUnpinned, trips)),
            (Floor::HandOff, Cores::One) | (Floor::None, _) => None,
            (Floor::HandOff, _) => Some((Limit::HandOff, 1.0)),
        }
    }

    fn spins(&self) -> bool {
        match wait(self.args) {
            Wait::Spin => true,
            Wait::Park => false,
            Wait::Auto => Waiting::auto(self.setup.actors + 1) != Waiting::Park,
        }
    }
}

/// The distance between one result and the next, in batches as long as a sample must be.
fn throughput(budget: Duration, graph: &dyn Drive) -> anyhow::Result<Summary> {
    let mut warm_up = 1_000_u32;
    let more = &mut || {
        warm_up = warm_up.saturating_sub(1);
        warm_up > 0
    };
    let (mut count, warm) = (0_u32, Instant::now());
    graph.stream(more, &mut || count += 1)?;
    let one_ns = warm.elapsed().as_nanos() as f64 / f64::from(count.max(1));
    let mut samples = measure::Samples::new(one_ns);
    let end = Instant::now() + budget;
    graph.stream(&mut || Instant::now() < end, &mut || samples.tick())?;
    samples.summary()
}
