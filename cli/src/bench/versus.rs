//! A graph and the limit that applies to it: the two alternate, and neither runs while the other is measured.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use selvedge::Waiting;

use super::limits::Limit;
use super::limits::cores::{self, Cores};
use super::measure::{self, REPEATS, Summary};
use super::record::{Record, Report};
use crate::args::{BenchArgs, Placement, Wait};
use crate::shapes::{Drive, Lanes, Setup};

/// The bytes of a message that fits into the cache line of its signal.
const LINE_BYTES: usize = 56;

/// One row: a shape, the measurement of it, and the limit to compare with.
pub(crate) struct Row<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) setup: Setup,
    pub(crate) build: fn(&Setup) -> anyhow::Result<Box<dyn Drive>>,
    pub(crate) measure: Measure,
    /// The limit, and the least number of its round trips that one execution needs.
    pub(crate) limit: Option<(Limit, f64)>,
}

/// The property of a shape that is measured.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// One execution at a time.
    Latency,
    /// The time between results, with several executions in flight.
    Throughput,
}

/// Returns the setup of a shape that the command line asks for.
pub(crate) fn setup(args: &BenchArgs, payload_bytes: u64, actors: u32) -> Setup {
    Setup {
        placement: placement(args).into(),
        wait: wait(args).into(),
        payload_bytes: args.payload.unwrap_or(payload_bytes) as usize,
        actors: args.actors.unwrap_or(actors) as usize,
        lanes: args.lanes.unwrap_or(Lanes::Own),
        inflight: 1,
        trace: args.trace as usize,
    }
}

/// Returns the placement of the actors.
pub(crate) fn placement(args: &BenchArgs) -> Placement {
    args.placement.unwrap_or(Placement::Thread)
}

/// Returns the way in which lanes wait.
pub(crate) fn wait(args: &BenchArgs) -> Wait {
    args.wait.unwrap_or(Wait::Auto)
}

/// Returns the limit of a round trip of a small message: a cache line if the sides spin, a futex if they park. `None`
/// for inline actors, because no message leaves the thread, and for payloads that need more than a cache line.
pub(crate) fn round_trip(args: &BenchArgs, setup: &Setup) -> Option<Limit> {
    let spins = match wait(args) {
        Wait::Spin => true,
        Wait::Park => false,
        Wait::Auto => matches!(
            Waiting::auto(setup.lanes_of(setup.actors) + 1),
            Waiting::SpinThenPark(_)
        ),
    };
    match placement(args) {
        Placement::Inline => None,
        _ if setup.payload_bytes > LINE_BYTES => None,
        _ if spins => Some(Limit::CacheLineTwoLines),
        // If the scheduler may choose, it puts one run on one core and the next on two, and a wake-up across cores
        // costs ten times as much. So both sides stay on one core, and the row compares the software.
        _ => Some(Limit::FutexOneCore),
    }
}

impl Row<'_> {
    /// Measures the limit and the graph, alternating, and prints the medians.
    pub(crate) fn run<W: Write>(&self, report: &mut Report<W>) -> anyhow::Result<()> {
        let budget = super::budget(self.args);
        let (mut limits, mut found) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            if let Some((limit, _)) = self.limit {
                limits.push(limit.measure(placement(self.args), self.setup.payload_bytes, budget));
            }
            found.push(self.measured(budget)?);
        }
        let summary = Summary::median(&found).ok_or_else(|| anyhow::anyhow!("nothing was measured"))?;
        let mut record = Record::new(self.args.case, self.setup.payload_bytes as u64, &summary)
            .placed(placement(self.args), wait(self.args));
        record.actors = self.setup.actors as u32;
        record.inflight = (self.setup.inflight > 1).then_some(self.setup.inflight as u32);
        match limits.into_iter().collect::<anyhow::Result<Vec<_>>>() {
            Ok(limits) => {
                if let (Some((limit, trips)), Some(floor)) = (self.limit, Summary::median(&limits)) {
                    let ratio = median_ratio(&found, &limits) / trips;
                    record = record.against(limit.name(), floor.p50_ns * trips, ratio);
                }
            }
            Err(error) => eprintln!("the limit is left out: {error:#}"),
        }
        report.row(&record)
    }
}

impl Row<'_> {
    /// Runs one repeat of the graph on the cores of its limit. It runs on a thread of its own, because lanes and
    /// workers stay on the core of the thread that starts them.
    pub(crate) fn measured(&self, budget: Duration) -> anyhow::Result<Summary> {
        let (build, setup, measure) = (self.build, &self.setup, self.measure);
        let one_core = matches!(self.limit, Some((Limit::FutexOneCore, _)));
        let cores = if one_core { Cores::One } else { Cores::Any };
        let (core, _) = cores.pair()?;
        let measured = std::thread::scope(|scope| {
            let run = move || {
                cores::pin(core)?;
                // The graph is built anew for every repeat: a compiled graph that spins would take a core from the
                // limit.
                let graph = build(setup)?;
                match measure {
                    Measure::Latency => measure::measure(budget, || graph.once()),
                    Measure::Throughput => throughput(budget, graph.as_ref()),
                }
            };
            scope.spawn(run).join()
        });
        measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    }
}

/// Returns the median over the turns of the ratio of both sides. A momentary slowdown of the machine, such as a host
/// that moves a virtual core, affects both sides of a turn.
pub fn median_ratio(found: &[Summary], limits: &[Summary]) -> f64 {
    let turns = found.iter().zip(limits);
    measure::median(turns.map(|(found, limit)| found.p50_ns / limit.p50_ns)).unwrap_or(f64::NAN)
}

/// Measures the time between one result and the next, in batches as long as a sample must be.
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
    let (end, sampled) = (Instant::now() + budget, Cell::new(false));
    let more = &mut || !sampled.get() || Instant::now() < end;
    graph.stream(more, &mut || {
        samples.tick();
        sampled.set(!samples.is_empty());
    })?;
    samples.summary()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_slows_down_both_sides_does_not_change_the_ratio() {
        let summaries = |p50: [f64; 3]| {
            p50.map(|p50_ns| Summary {
                iterations: 1,
                p50_ns,
                p90_ns: p50_ns,
                p99_ns: p50_ns,
                p999_ns: p50_ns,
                per_second: 1e9 / p50_ns,
            })
        };
        let (found, limits) = (
            summaries([400.0, 1_600.0, 1_640.0]),
            summaries([100.0, 400.0, 410.0]),
        );
        assert_eq!(median_ratio(&found, &limits), 4.0);
    }
}
