//! The `allreduce` case: a sum of `f32` over ranks, in tensors of the group's memory (`slot`) and in private vectors
//! (`private`). The same ranks also measure a barrier and a copy in the same run, for comparison.
//!
//! Vectors are *fresh* unless `--hot` is given: each rank writes its own vector before an operation and reads the
//! result after it. Only the collective is timed, from the moment when all ranks are ready to the moment when rank 0
//! has the result. The copy moves as many bytes from private memory to private memory, on all ranks at once, with
//! stores through the caches or past them, whichever is faster.
//!
//! `--peers` measures private vectors alone, alternating with Open MPI's `MPI_Allreduce` of private vectors.

use std::hint::black_box;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use selvedge::Waiting;
use selvedge::collectives::{Collective, Communicator, Group, GroupDescriptor, Rank, ReduceOp};
use selvedge_channels::DType;

use super::limits::cores;
use super::limits::streaming;
use super::measure::{REPEATS, Summary};
use super::mpi::Peer;
use super::record::{Record, Report};
use super::versus::median_ratio;
use crate::args::{AllreducePeerArgs, BenchArgs, Placement, Wait};

/// The largest payload, in bytes, for which a sample times several operations: for one such operation, reading the
/// clock would be a large part of the time.
const SHORT_BYTES: u64 = 4 << 10;
/// The number of operations in one sample of such payloads.
const BATCH: usize = 64;
/// The largest payload, in bytes, whose limit is a barrier; the limit of larger payloads is a copy.
const TINY_BYTES: u64 = 1 << 10;
/// The time limit for waiting on the other ranks.
const PATIENCE: Duration = Duration::from_secs(60);

/// An operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Barrier,
    CachedCopy,
    StreamingCopy,
    Slot,
    Private,
}

const PHASES: [Phase; 5] = [
    Phase::Barrier,
    Phase::CachedCopy,
    Phase::StreamingCopy,
    Phase::Slot,
    Phase::Private,
];

/// The parameters that all ranks share.
#[derive(Clone, Copy, Debug)]
struct Work {
    payload: u64,
    hot: bool,
    /// True if the run is one repeat of private vectors alone.
    private: bool,
    /// The time that a phase may take.
    budget: Duration,
}

impl Work {
    fn phases(&self) -> &'static [Phase] {
        if self.private { &[Phase::Private] } else { &PHASES }
    }

    fn repeats(&self) -> usize {
        if self.private { 1 } else { REPEATS }
    }

    fn batch(&self) -> usize {
        if self.payload <= SHORT_BYTES { BATCH } else { 1 }
    }

    /// Returns the number of samples of a phase, equal on every rank: as many as fit the budget at 2 bytes per
    /// nanosecond.
    fn samples(&self) -> usize {
        let one_ns = (1_000 + 2 * self.payload) * self.batch() as u64;
        (self.budget.as_nanos() as u64 / one_ns).clamp(7, 20_000) as usize
    }
}

/// Runs one phase on this rank and returns its samples, in nanoseconds per operation.
fn phase(rank: &mut Rank, work: &Work, phase: Phase) -> anyhow::Result<Vec<f64>> {
    let count = (work.payload / 4) as usize;
    let (batch, samples) = (work.batch(), work.samples());
    let sum = rank.plan(Collective::AllReduce(ReduceOp::Sum))?;
    let own = rank.rank() as f32 + 1.0;
    let expected = (rank.world_size() * (rank.world_size() + 1) / 2) as f32;
    let mut private = vec![own; count];
    let mut target = vec![0.0_f32; count];
    let mut times = Vec::with_capacity(samples);
    // One sample more than is kept: the first one touches the memory and is dropped.
    for sample in 0..=samples {
        let fresh = !work.hot || sample == 0;
        let mut loan = None;
        match phase {
            Phase::Slot => {
                let mut made = rank.loan(&[(DType::F32, &[count])])?;
                if fresh {
                    made.as_mut_slice::<f32>(0)?.fill(own);
                }
                loan = Some(made);
            }
            Phase::Private if fresh => private.fill(own),
            _ => {}
        }
        rank.barrier()?;
        let started = Instant::now();
        let mut result = None;
        for turn in 0..batch {
            match phase {
                Phase::Barrier => rank.barrier()?,
                Phase::CachedCopy => black_box(target.as_mut_slice()).copy_from_slice(black_box(&private)),
                Phase::StreamingCopy => streaming::copy(black_box(&private), black_box(&mut target)),
                Phase::Slot => {
                    let filled = match loan.take() {
                        Some(loan) => loan,
                        None => {
                            let mut loan = rank.loan(&[(DType::F32, &[count])])?;
                            loan.as_mut_slice::<f32>(0)?.fill(own);
                            loan
                        }
                    };
                    rank.launch_loan(sum, filled)?;
                    result = rank.wait(Some(PATIENCE))?.pop();
                }
                Phase::Private => {
                    if turn > 0 {
                        private.fill(own);
                    }
                    rank.allreduce_slice(ReduceOp::Sum, &mut private)?;
                }
            }
        }
        let elapsed = started.elapsed();
        if sample > 0 {
            times.push(elapsed.as_nanos() as f64 / batch as f64);
        }
        if !work.hot {
            let sums = match (&result, phase) {
                (Some(result), _) => result.as_slice::<f32>()?,
                (None, Phase::Private) => &private,
                _ => continue,
            };
            anyhow::ensure!(sums.iter().all(|sum| *sum == expected), "a sum is wrong");
        }
    }
    Ok(times)
}

/// Returns the summary of samples in nanoseconds per operation, each of `batch` operations. What a phase does between its samples, such as looking
/// at each sum, counts for nothing.
fn summary(times: Vec<f64>, batch: usize) -> Option<Summary> {
    let iterations = times.len() as u64 * batch as u64;
    let busy = Duration::from_nanos((times.iter().sum::<f64>() * batch as f64) as u64);
    Summary::of_samples(times, iterations, busy)
}

/// Runs all phases of all repeats, alternating between the phases.
fn take_part(mut rank: Rank, work: &Work) -> anyhow::Result<Vec<Vec<(Phase, Summary)>>> {
    let mut repeats = Vec::with_capacity(work.repeats());
    for _ in 0..work.repeats() {
        let mut found = Vec::with_capacity(PHASES.len());
        for kind in work.phases() {
            let times = phase(&mut rank, work, *kind)?;
            found.push((
                *kind,
                summary(times, work.batch()).context("nothing was measured")?,
            ));
        }
        repeats.push(found);
    }
    Ok(repeats)
}

/// The processes of the other ranks; empty when the ranks are threads.
#[derive(Default)]
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(args: &BenchArgs, work: &Work, group: &GroupDescriptor, rank: usize) -> anyhow::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("allreduce-peer");
    command.args(["--group", &group.to_string(), "--rank", &rank.to_string()]);
    command.args(["--payload", &work.payload.to_string()]);
    command.args(["--budget-ns", &work.budget.as_nanos().to_string()]);
    command.args(["--wait", &args.wait.unwrap_or(Wait::Auto).to_string()]);
    if work.hot {
        command.arg("--hot");
    }
    if work.private {
        command.arg("--private");
    }
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
}

/// Pins the rank to a core of its own if there are enough cores for all ranks.
fn pin(rank: usize, ranks: usize) -> anyhow::Result<()> {
    let cores = cores::allowed()?;
    if ranks > cores.len() {
        return Ok(());
    }
    cores::pin(cores.get(rank).copied())
}

fn waiting(wait: Wait, ranks: usize) -> Waiting {
    wait.waiting(ranks)
}

/// The `main` of another rank's process.
///
/// # Errors
/// The group cannot be opened, or the other ranks have gone.
pub fn serve(args: &AllreducePeerArgs) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("prctl")?;
    let group = Group::open(&args.group)?;
    let ranks = group.world_size();
    let group = group.waiting(waiting(args.wait, ranks)).timeout(PATIENCE);
    pin(args.rank, ranks)?;
    let work = Work {
        payload: args.payload,
        hot: args.hot,
        private: args.private,
        budget: Duration::from_nanos(args.budget_ns),
    };
    take_part(group.rank(args.rank)?, &work).map(drop)
}

/// Runs all ranks of a group and returns the summaries of rank 0, repeat by repeat.
fn repeats(args: &BenchArgs, placement: Placement, work: Work) -> anyhow::Result<Vec<Vec<(Phase, Summary)>>> {
    let ranks = args.ranks as usize;
    let wait = args.wait.unwrap_or(Wait::Auto);
    let group = match placement {
        Placement::Process | Placement::Host => Group::new(ranks)?,
        Placement::Thread | Placement::Inline => Group::in_process(ranks)?,
    };
    let group = group.waiting(waiting(wait, ranks)).timeout(PATIENCE);
    let mut children = Children::default();
    if let Some(descriptor) = group.descriptor() {
        for rank in 1..ranks {
            children.0.push(spawn(args, &work, &descriptor, rank)?);
        }
    }
    let started = |rank: usize| {
        let group = group.clone();
        move || {
            pin(rank, ranks)?;
            take_part(group.rank(rank)?, &work)
        }
    };
    thread::scope(|scope| {
        let here = if placement == Placement::Process { 1 } else { ranks };
        let threads: Vec<_> = (0..here).map(|rank| scope.spawn(started(rank))).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a rank panicked")));
        results
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .next()
            .context("no rank")?
    })
}

/// Prints a row for tensors in slots and one for private vectors.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    if args.peers {
        return peers(args, report);
    }
    let wait = args.wait.unwrap_or(Wait::Auto);
    let work = Work {
        payload: args.payload.unwrap_or(1 << 20),
        hot: args.hot,
        private: false,
        budget: super::budget(args) / PHASES.len() as u32,
    };
    let placement = args.placement.unwrap_or(Placement::Thread);
    let repeats = repeats(args, placement, work)?;
    let of = |phase: Phase| -> Vec<Summary> {
        let all = repeats.iter().flatten().filter(|(kind, _)| *kind == phase);
        all.map(|(_, summary)| *summary).collect()
    };
    let copies = of(Phase::CachedCopy).into_iter().zip(of(Phase::StreamingCopy));
    let copies: Vec<Summary> = copies
        .map(|(one, other)| if one.p50_ns <= other.p50_ns { one } else { other })
        .collect();
    let (limit, limits) = if work.payload <= TINY_BYTES {
        ("barrier", of(Phase::Barrier))
    } else {
        ("copy", copies)
    };
    for (mode, phase) in [("slot", Phase::Slot), ("private", Phase::Private)] {
        let found = of(phase);
        let summary = Summary::median(&found).context("nothing was measured")?;
        let mut record = Record::new(args.case, work.payload, &summary).placed(placement, wait);
        record.mode = Some(mode.to_owned());
        record.ranks = Some(args.ranks);
        if let Some(floor) = Summary::median(&limits) {
            record = record.against(limit, floor.p50_ns, median_ratio(&found, &limits));
        }
        report.row(&record)?;
    }
    Ok(())
}

/// The payloads, in bytes, of the comparison with Open MPI when the command line names none.
const PEER_BYTES: [u64; 6] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Prints, for each payload, a row for private vectors of selvedge, compared with the faster of Open MPI's two
/// variants, and a row for each variant.
fn peers<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let placement = args.placement.unwrap_or(Placement::Process);
    anyhow::ensure!(
        placement == Placement::Process,
        "Open MPI's ranks are processes: leave --placement out"
    );
    let wait = args.wait.unwrap_or(Wait::Auto);
    let peer = Peer::compile()?;
    let cores = cores::allowed()?.len();
    let payloads = args.payload.map_or(PEER_BYTES.to_vec(), |payload| vec![payload]);
    for payload in payloads {
        let work = Work {
            payload,
            hot: false,
            private: true,
            // The budget is split between selvedge and the two variants of Open MPI.
            budget: super::budget(args) / 3,
        };
        let (mut ours, mut apart, mut in_place, mut best) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let found = repeats(args, placement, work)?;
            ours.extend(found.into_iter().flatten().map(|(_, summary)| summary));
            let [one, other] = peer.measure(payload, work.samples(), args.ranks as usize, cores)?;
            best.push(if one.p50_ns <= other.p50_ns { one } else { other });
            apart.push(one);
            in_place.push(other);
        }
        let row = |mode: &str, found: &[Summary]| {
            let summary = Summary::median(found).context("nothing was measured")?;
            let mut record = Record::new(args.case, payload, &summary).placed(placement, wait);
            record.mode = Some(mode.to_owned());
            record.ranks = Some(args.ranks);
            anyhow::Ok(record)
        };
        let theirs = Summary::median(&best).context("nothing was measured")?;
        let ratio = median_ratio(&ours, &best);
        report.row(&row("private", &ours)?.against("open_mpi", theirs.p50_ns, ratio))?;
        for (mode, found) in [("open_mpi_apart", apart), ("open_mpi_in_place", in_place)] {
            let mut record = row(mode, &found)?;
            record.wait = "spin".to_owned();
            record.stage = Some(mode.to_owned());
            report.row(&record)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_per_second_count_the_samples_alone() {
        let found = summary(vec![100.0, 200.0, 300.0], 64).unwrap();
        assert_eq!(found.iterations, 192);
        assert_eq!(found.p50_ns, 200.0);
        assert!((found.per_second - 5e6).abs() < 1.0, "{found:?}");
    }
}
