//! Channels without actors: one message to every reader, and eight bytes back from each reader.
//!
//! `copy` sends a payload from private memory, and the reader reads every byte; `loan` builds the payload in its slot
//! and reads it there, so that only its first and last byte are touched; `stream` sends in one direction and counts
//! messages.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use selvedge::Waiting;
use selvedge_channels::{ChannelError, ChannelOptions, Descriptor, End, Reader, SharedChannel, Wire, Writer};

use super::limits::cores::{self, Cores};
use super::limits::{Limit, hand_off};
use super::measure::{self, REPEATS, Summary};
use super::record::{Record, Report};
use super::versus::median_ratio;
use crate::args::{BenchArgs, ChannelPeerArgs, Mode, Placement, Transport, Wait};
use crate::checksum::checksum;

/// Payloads of this size are sent as a number, which lies in the cache line of its slot's stamp.
const NUMBER_BYTES: u64 = 8;
/// The number of slots of a round trip; the default of a channel.
const SLOTS: usize = 8;
/// The most memory that several slots may take; beyond it the slots do not fit in the caches.
const ROOM_BYTES: u64 = 512 << 20;
/// The number of messages in flight in a stream.
const STREAM_SLOTS: usize = 64;
/// The number of messages that one call sends in a stream.
const STREAM_BATCH: usize = 32;
/// The time limit for waiting on the other side.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads a message as the other side of the case does: its first and last byte for loans, else every byte.
pub fn read(bytes: &[u8], mode: Mode) -> u64 {
    if mode == Mode::Loan {
        let ends = [bytes.first(), bytes.last()];
        return ends.into_iter().flatten().map(|byte| u64::from(*byte)).sum();
    }
    checksum(bytes)
}

/// A kind of message: the ways to send it and to read it.
trait Message: Wire {
    fn send(writer: &mut Writer<Self>, kept: &Self, mode: Mode) -> Result<(), ChannelError>;
    fn read(reader: &mut Reader<Self>, mode: Mode) -> Result<u64, ChannelError>;
    /// Reads a message and sends the answer before it releases the message.
    fn answer(reader: &mut Reader<Self>, back: &mut Writer<u64>, mode: Mode) -> Result<(), ChannelError>;
}

fn send(back: &mut Writer<u64>, sum: u64) -> Result<(), ChannelError> {
    back.send(sum).map_err(|refused| refused.error)
}

impl Message for u64 {
    fn send(writer: &mut Writer<u64>, kept: &u64, _: Mode) -> Result<(), ChannelError> {
        writer.send(*kept).map_err(|refused| refused.error)
    }

    fn read(reader: &mut Reader<u64>, _: Mode) -> Result<u64, ChannelError> {
        reader.recv()
    }

    fn answer(reader: &mut Reader<u64>, back: &mut Writer<u64>, _: Mode) -> Result<(), ChannelError> {
        send(back, reader.recv()?)
    }
}

impl Message for Vec<u8> {
    fn send(writer: &mut Writer<Self>, kept: &Self, mode: Mode) -> Result<(), ChannelError> {
        if mode != Mode::Loan {
            return writer.send_ref(kept);
        }
        let mut loan = writer.reserve(kept.len())?;
        if let (Some(first), Some(byte)) = (loan.first_mut(), kept.first()) {
            *first = *byte;
        }
        loan.publish()
    }

    fn read(reader: &mut Reader<Self>, mode: Mode) -> Result<u64, ChannelError> {
        Ok(read(reader.view()?.slice()?, mode))
    }

    fn answer(reader: &mut Reader<Self>, back: &mut Writer<u64>, mode: Mode) -> Result<(), ChannelError> {
        let view = reader.view()?;
        send(back, read(view.slice()?, mode))
    }
}

/// Returns the numbers of slots to try. A stream needs many. Few slots stay in the caches; with several slots the
/// writer need not check the reader's position before every message. The best number counts, as for the hand-off floor.
fn forms(args: &BenchArgs) -> Vec<usize> {
    match args.mode {
        Mode::Stream => vec![STREAM_SLOTS],
        _ if number(args) => vec![SLOTS],
        _ if args.payload.unwrap_or(0).saturating_mul(SLOTS as u64) > ROOM_BYTES => vec![1],
        Mode::Copy | Mode::Loan => hand_off::COUNTS.to_vec(),
    }
}

fn options(payload_bytes: u64, slots: usize, wait: Waiting) -> ChannelOptions {
    ChannelOptions::new()
        .slots(slots)
        .buffer_bytes(payload_bytes.saturating_add(64).max(1000))
        .waiting(wait)
        .timeout(PATIENCE)
}

/// The loop of the other side: reads, and answers unless the mode is `stream`.
fn answer<T: Message>(mut there: Reader<T>, mut back: Writer<u64>, mode: Mode) -> anyhow::Result<()> {
    let mut taken = Vec::new();
    loop {
        let done = if mode == Mode::Stream {
            taken.clear();
            there.recv_many(STREAM_SLOTS, &mut taken).map(drop)
        } else {
            T::answer(&mut there, &mut back, mode)
        };
        match done {
            Ok(()) => {}
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The running threads and processes of the other side.
#[derive(Default)]
struct Others {
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
    processes: Vec<Child>,
}

impl Drop for Others {
    fn drop(&mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The measuring side of a channel. Its fields are dropped in order: the other side ends once the writer is gone.
struct Side<T> {
    there: Writer<T>,
    back: Vec<Reader<u64>>,
    /// The reader, when writer and reader share the thread.
    own: Option<Reader<T>>,
    _others: Others,
}

impl<T: Message> Side<T> {
    fn start(args: &BenchArgs, slots: usize, wait: Waiting, core: Option<usize>) -> anyhow::Result<Self> {
        let (mode, readers) = (args.mode, args.readers as usize);
        // Answers are numbers, of which one is in flight at a time.
        let back_options = options(NUMBER_BYTES, SLOTS, wait);
        let payload_bytes = args.payload.unwrap_or(NUMBER_BYTES);
        let there_options = options(payload_bytes, slots, wait).readers(readers);
        let mut others = Others::default();
        let mut back = Vec::new();
        if args.transport != Transport::Shm {
            let (there, mut ends) = there_options.threads::<T>()?;
            if args.transport == Transport::Intra {
                let own = ends.pop();
                return Ok(Side {
                    there,
                    back,
                    own,
                    _others: others,
                });
            }
            for end in ends {
                let (writer, mut reader) = back_options.threads::<u64>()?;
                back.append(&mut reader);
                others.threads.push(thread::spawn(move || {
                    cores::pin(core)?;
                    answer(end, writer, mode)
                }));
            }
            return Ok(Side {
                there,
                back,
                own: None,
                _others: others,
            });
        }
        let there = there_options.shared::<T>()?;
        for index in 0..args.readers {
            let channel = back_options.shared::<u64>()?;
            let child = spawn(args, wait, core, index, there.descriptor(), channel.descriptor())?;
            there.expect(End::Reader(index), child.id())?;
            channel.expect(End::Writer, child.id())?;
            others.processes.push(child);
            back.push(channel.reader(0)?);
        }
        Ok(Side {
            there: there.writer()?,
            back,
            own: None,
            _others: others,
        })
    }

    /// Sends one message and waits for all answers.
    fn round_trip(&mut self, kept: &T, mode: Mode) -> anyhow::Result<()> {
        T::send(&mut self.there, kept, mode)?;
        if let Some(own) = &mut self.own {
            T::read(own, mode)?;
        }
        for reader in &mut self.back {
            reader.recv()?;
        }
        Ok(())
    }

    /// Sends messages in one direction, as fast as the slots allow.
    fn stream(&mut self, kept: &T, budget: Duration) -> anyhow::Result<Summary> {
        let mut taken = Vec::new();
        measure::stream(budget, STREAM_BATCH, || {
            let mut batch = std::iter::repeat_n(kept, STREAM_BATCH).cloned();
            self.there.send_all(&mut batch).map_err(|refused| refused.error)?;
            if let Some(own) = &mut self.own {
                taken.clear();
                own.recv_many(STREAM_BATCH, &mut taken)?;
            }
            Ok(())
        })
    }
}

fn spawn(
    args: &BenchArgs,
    wait: Waiting,
    core: Option<usize>,
    index: u32,
    there: &Descriptor,
    back: &Descriptor,
) -> anyhow::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args([
        "channel-peer",
        "--there",
        &there.to_string(),
        "--back",
        &back.to_string(),
    ]);
    command.args(["--index", &index.to_string()]);
    // The parent decides how to wait: a process that starts on one core counts only one available core.
    match wait {
        Waiting::Spin => {}
        Waiting::Park => drop(command.args(["--spin-us", "0"])),
        Waiting::YieldThenPark(times) => drop(command.args(["--yields", &times.to_string()])),
        Waiting::SpinThenPark(budget) => drop(command.args(["--spin-us", &budget.as_micros().to_string()])),
        _ => anyhow::bail!("{wait:?} cannot be passed on to the other end"),
    }
    command.args(["--mode", &args.mode.to_string()]);
    if number(args) {
        command.arg("--number");
    }
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
}

/// The `main` of the other process.
///
/// # Errors
/// The channels cannot be opened, or a wait for the other side timed out.
pub fn serve(args: &ChannelPeerArgs) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("prctl")?;
    cores::pin(args.core)?;
    let waiting = match args.spin_us {
        None if args.yields > 0 => Waiting::YieldThenPark(args.yields),
        None => Waiting::Spin,
        Some(0) => Waiting::Park,
        Some(budget) => Waiting::SpinThenPark(Duration::from_micros(budget)),
    };
    let options = ChannelOptions::new().waiting(waiting).timeout(PATIENCE);
    let back = SharedChannel::open(&args.back, options.clone())?.writer()?;
    if args.number {
        let there = SharedChannel::<u64>::open(&args.there, options)?;
        answer(there.reader(args.index)?, back, args.mode)
    } else {
        let there = SharedChannel::<Vec<u8>>::open(&args.there, options)?;
        answer(there.reader(args.index)?, back, args.mode)
    }
}

fn wait(args: &BenchArgs) -> Wait {
    args.wait.unwrap_or(Wait::Auto)
}

fn number(args: &BenchArgs) -> bool {
    args.payload.unwrap_or(NUMBER_BYTES) == NUMBER_BYTES
}

/// Returns the limit of a round trip to one reader, and the cores on which both are measured. No limit parks and carries a payload.
fn limit(args: &BenchArgs, waiting: Waiting) -> (Option<Limit>, Cores) {
    let parks = waiting == Waiting::Park;
    let limit = match (args.mode, args.transport) {
        _ if args.readers > 1 => None,
        (Mode::Stream, _) | (_, Transport::Intra) => None,
        (Mode::Copy, _) if !number(args) => Some(Limit::HandOff).filter(|_| !parks),
        _ if parks => Some(Limit::FutexOneCore),
        _ => Some(Limit::CacheLineTwoLines),
    };
    let cores = match args.transport {
        _ if args.readers > 1 => Cores::Any,
        Transport::Intra => Cores::One,
        _ if limit == Some(Limit::FutexOneCore) || (parks && number(args)) => Cores::One,
        _ => Cores::Two,
    };
    (limit, cores)
}

fn measured<T: Message>(
    args: &BenchArgs,
    kept: &T,
    cores: Cores,
    budget: Duration,
) -> anyhow::Result<Summary> {
    let (ours, theirs) = cores.pair()?;
    let (waits, forms) = (wait(args).waiting(args.readers as usize + 1), forms(args));
    let run = move || {
        cores::pin(ours)?;
        let budget = budget / forms.len().max(1) as u32;
        let mut best: Option<Summary> = None;
        for slots in forms {
            let mut side = Side::<T>::start(args, slots, waits, theirs)?;
            let found = if args.mode == Mode::Stream {
                side.stream(kept, budget)?
            } else {
                for _ in 0..2 * slots {
                    side.round_trip(kept, args.mode)?; // each slot has now been touched
                }
                measure::measure(budget, || side.round_trip(kept, args.mode))?
            };
            best = best.filter(|best| best.p50_ns <= found.p50_ns).or(Some(found));
        }
        best.context("nothing to measure")
    };
    let measured = thread::scope(|scope| scope.spawn(run).join());
    measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
}

/// Runs one repeat of about `budget` on the given cores, with the best number of slots.
///
/// # Errors
/// The other side cannot be started, or does not answer.
pub fn once(args: &BenchArgs, cores: Cores, budget: Duration) -> anyhow::Result<Summary> {
    if number(args) {
        return measured(args, &7_u64, cores, budget);
    }
    let kept = vec![7_u8; args.payload.unwrap_or(NUMBER_BYTES) as usize];
    measured(args, &kept, cores, budget)
}

/// Prints the case's row.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let (budget, payload) = (super::budget(args), args.payload.unwrap_or(NUMBER_BYTES));
    let (limit, cores) = limit(args, wait(args).waiting(args.readers as usize + 1));
    let placement = match args.transport {
        Transport::Shm => Placement::Process,
        Transport::Thread | Transport::Intra => Placement::Thread,
    };
    let (mut limits, mut found) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        if let Some(limit) = limit {
            limits.push(limit.measure(placement, payload as usize, budget)?);
        }
        found.push(once(args, cores, budget)?);
    }
    let summary = Summary::median(&found).context("nothing was measured")?;
    let mut record = Record::new(args.case, payload, &summary).placed(placement, wait(args));
    record.placement = args.transport.to_string();
    record.mode = Some(args.mode.to_string());
    record.readers = Some(args.readers);
    if let (Some(limit), Some(floor)) = (limit, Summary::median(&limits)) {
        record = record.against(limit.name(), floor.p50_ns, median_ratio(&found, &limits));
    }
    report.row(&record)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Subcommand};

    fn limit_of(line: &str) -> (Option<Limit>, Cores) {
        let words = ["selvedge", "bench", "channel"]
            .into_iter()
            .chain(line.split(' '));
        let Subcommand::Bench(args) = Cli::parse_from(words).command else {
            unreachable!("`bench` is a command of its own");
        };
        limit(&args, wait(&args).waiting(2))
    }

    #[test]
    fn a_channel_runs_on_the_cores_of_its_limit() {
        let parked = (Some(Limit::FutexOneCore), Cores::One);
        assert_eq!(limit_of("--wait park"), parked);
        assert_eq!(limit_of("--wait park --payload 4096 --mode loan"), parked);
        assert_eq!(limit_of("--wait park --payload 4096"), (None, Cores::Two));
        let spinning = (Some(Limit::CacheLineTwoLines), Cores::Two);
        assert_eq!(limit_of("--wait spin"), spinning);
        assert_eq!(limit_of("--wait spin --payload 4096 --mode loan"), spinning);
        assert_eq!(
            limit_of("--wait spin --payload 4096"),
            (Some(Limit::HandOff), Cores::Two)
        );
    }
}
