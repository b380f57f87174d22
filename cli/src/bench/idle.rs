//! Waiting for one of many inputs: a round trip of a message through one channel in each direction, while idle channels
//! share the reader's doorbell. A doorbell is one word however many channels ring it, so the number of idle channels
//! must not change the time.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use selvedge::Waiting;
use selvedge_channels::{Doorbell, RingReader, RingWriter, ring};

use super::limits::cores::{self, Cores};
use super::measure::{self, REPEATS, Summary};
use super::record::{Record, Report};
use super::versus::{median_ratio, wait};
use crate::args::{BenchArgs, Placement};

/// The number of idle inputs of each row.
const IDLE: [usize; 4] = [1, 10, 100, 1_000];
/// The time limit for waiting on the other side.
const PATIENCE: Duration = Duration::from_secs(20);

/// One end of the round trip: its doorbell, its writer and its reader.
struct Side {
    bell: Doorbell,
    waiting: Waiting,
    to: RingWriter<u64>,
    from: RingReader<u64>,
    _idle: Vec<RingReader<u64>>,
}

impl Side {
    fn receive(&mut self) -> anyhow::Result<Option<u64>> {
        let (from, deadline) = (&mut self.from, Instant::now().checked_add(PATIENCE));
        let woken = self
            .bell
            .wait(&self.waiting, deadline, || from.ready() || from.is_closed());
        anyhow::ensure!(woken, "the other side does not answer");
        Ok(from.take().and_then(Result::ok))
    }

    fn send(&mut self, number: u64) -> anyhow::Result<()> {
        // At most one message is in flight, so a slot is free.
        self.to
            .try_write(Ok(number))
            .map_err(|_| anyhow::anyhow!("no slot"))
    }
}

type Ends = (RingWriter<u64>, RingReader<u64>);

fn channel(writer: &Doorbell, reader: &Doorbell) -> anyhow::Result<Ends> {
    let (to, mut from) = ring(8, writer.clone(), vec![reader.clone()])?;
    Ok((to, from.pop().context("a ring without a reader")?))
}

fn measured(
    idle: usize,
    waiting: Waiting,
    (own, other): cores::Pair,
    budget: Duration,
) -> anyhow::Result<Summary> {
    let (asks, answers) = (Doorbell::heap(), Doorbell::heap());
    let (there, from_there) = channel(&asks, &answers)?;
    let (back, from_back) = channel(&answers, &asks)?;
    let silent: Vec<Ends> = (0..idle)
        .map(|_| channel(&asks, &answers))
        .collect::<anyhow::Result<_>>()?;
    let (_writers, silent): (Vec<_>, Vec<_>) = silent.into_iter().unzip();
    let mut answering = Side {
        bell: answers,
        waiting,
        to: back,
        from: from_there,
        _idle: silent,
    };
    let mut asking = Side {
        bell: asks,
        waiting,
        to: there,
        from: from_back,
        _idle: Vec::new(),
    };
    thread::scope(|scope| {
        scope.spawn(move || -> anyhow::Result<()> {
            cores::pin(other)?;
            while let Some(number) = answering.receive()? {
                answering.send(number)?;
            }
            Ok(())
        });
        let run = move || {
            cores::pin(own)?;
            measure::measure(budget, || {
                asking.send(7)?;
                asking.receive()?.context("the other side has gone").map(drop)
            })
        };
        let measured = scope.spawn(run).join();
        measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    })
}

/// Prints a row for each number of idle inputs; the ratio is relative to the row with one idle input.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let waiting = wait(args).waiting(2);
    let cores = if waiting == Waiting::Park {
        Cores::One
    } else {
        Cores::Two
    };
    let mut found = vec![Vec::new(); IDLE.len()];
    for _ in 0..REPEATS {
        for (idle, found) in IDLE.iter().zip(&mut found) {
            found.push(measured(*idle, waiting, cores.pair()?, super::budget(args))?);
        }
    }
    let first = found.first().cloned().unwrap_or_default();
    let one = Summary::median(&first).context("nothing was measured")?;
    for (idle, found) in IDLE.iter().zip(&found) {
        let summary = Summary::median(found).context("nothing was measured")?;
        let mut record = Record::new(args.case, 8, &summary).placed(Placement::Thread, wait(args));
        record.inputs = Some(*idle as u32);
        report.row(&record.against("one_idle_input", one.p50_ns, median_ratio(found, &first)))?;
    }
    Ok(())
}
