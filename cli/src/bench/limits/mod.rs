//! The limits of the machine, measured without selvedge.
//!
//! - `cores`: pinning of the two sides.
//! - `arena`: the memory that both sides share.
//! - `patience`: waiting with a time limit.
//! - `cache_line`, `futex`, `hand_off`, `memcpy`: one limit each; `streaming`: a copy past the caches.
//! - `peer`: the other side, a thread or a process.

pub mod cores;

pub mod streaming;

mod arena;

mod patience;

mod cache_line;
mod futex;
pub(super) mod hand_off;
mod memcpy;

mod peer;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use memcpy::copy;
pub use peer::{Protocol, serve};

use self::arena::{Arena, Slots};
use self::cores::Cores;
use self::peer::Peer;
use super::measure::{self, REPEATS, Summary};
use super::record::{Record, Report};
use crate::args::{BenchArgs, Case, Placement, Wait};

/// The payload of the copies when the command line names none.
const PAYLOAD_BYTES: u64 = 1 << 20;
/// The bytes of a message that carries only a signal.
const SIGNAL_BYTES: u64 = 8;

/// A limit of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Spinning on two cores, one cache line for each direction.
    CacheLineTwoLines,
    /// Spinning on two cores, one cache line for both directions.
    CacheLineOneLine,
    /// Parked at every message, on two cores.
    FutexTwoCores,
    /// Parked at every message, on one core.
    FutexOneCore,
    /// Parked at every message, on the cores that the scheduler chooses.
    FutexUnpinned,
    /// A copy on one core.
    Memcpy,
    /// A payload copied in on one core and read on another, spinning.
    HandOff,
}

impl Limit {
    const ALL: [Limit; 7] = [
        Limit::CacheLineTwoLines,
        Limit::CacheLineOneLine,
        Limit::FutexTwoCores,
        Limit::FutexOneCore,
        Limit::FutexUnpinned,
        Limit::Memcpy,
        Limit::HandOff,
    ];

    /// The name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Limit::CacheLineTwoLines => "cache_line_two_lines",
            Limit::CacheLineOneLine => "cache_line_one_line",
            Limit::FutexTwoCores => "futex_two_cores",
            Limit::FutexOneCore => "futex_one_core",
            Limit::FutexUnpinned => "futex_unpinned",
            Limit::Memcpy => "memcpy",
            Limit::HandOff => "hand_off",
        }
    }

    /// Returns how the sides wait; `None` for a copy, which has one side.
    fn wait(self) -> Option<Wait> {
        match self {
            Limit::CacheLineTwoLines | Limit::CacheLineOneLine | Limit::HandOff => Some(Wait::Spin),
            Limit::FutexTwoCores | Limit::FutexOneCore | Limit::FutexUnpinned => Some(Wait::Park),
            Limit::Memcpy => None,
        }
    }

    fn cores(self) -> Cores {
        match self {
            Limit::CacheLineTwoLines | Limit::CacheLineOneLine | Limit::HandOff | Limit::FutexTwoCores => {
                Cores::Two
            }
            Limit::FutexOneCore | Limit::Memcpy => Cores::One,
            Limit::FutexUnpinned => Cores::Any,
        }
    }

    fn protocol(self, placement: Placement) -> Option<Protocol> {
        match self {
            Limit::CacheLineTwoLines => Some(Protocol::TwoLines),
            Limit::CacheLineOneLine => Some(Protocol::OneLine),
            Limit::FutexTwoCores | Limit::FutexOneCore | Limit::FutexUnpinned => Some(match placement {
                Placement::Process | Placement::Host => Protocol::FutexShared,
                Placement::Thread | Placement::Inline => Protocol::FutexPrivate,
            }),
            Limit::Memcpy => None,
            Limit::HandOff => Some(Protocol::HandOff),
        }
    }

    fn carries_payload(self) -> bool {
        matches!(self, Limit::Memcpy | Limit::HandOff)
    }

    /// Runs one repeat of about `budget`. Only the limits that carry a payload use `payload_bytes`.
    ///
    /// # Errors
    /// The machine has too few cores for the limit, or the other side cannot be started.
    pub fn measure(
        self,
        placement: Placement,
        payload_bytes: usize,
        budget: Duration,
    ) -> anyhow::Result<Summary> {
        let (ours, theirs) = self.cores().pair()?;
        // A separate thread, because a pinned thread stays pinned; the other side does not outlive it.
        let measured = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    cores::pin(ours)?;
                    let Some(protocol) = self.protocol(placement) else {
                        return measure::measure(budget, memcpy::copy(payload_bytes));
                    };
                    let forms = match self {
                        Limit::HandOff => hand_off::forms(payload_bytes),
                        _ => vec![Slots::NONE],
                    };
                    let budget = budget / forms.len().max(1) as u32;
                    let mut best: Option<Summary> = None;
                    for slots in forms {
                        let found = round_trips(protocol, placement, theirs, slots, budget)?;
                        best = best.filter(|best| best.p50_ns <= found.p50_ns).or(Some(found));
                    }
                    best.ok_or_else(|| anyhow::anyhow!("nothing to measure"))
                })
                .join()
        });
        measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    }
}

fn round_trips(
    protocol: Protocol,
    placement: Placement,
    core: Option<usize>,
    slots: Slots,
    budget: Duration,
) -> anyhow::Result<Summary> {
    let arena = Arc::new(Arena::create(slots)?);
    let peer = Peer::start(protocol, placement, core, Arc::clone(&arena))?;
    let mut ask = protocol.ask(&arena);
    for _ in 0..2 * slots.count {
        ask()?; // the other side is up, and each slot is touched
    }
    let found = measure::measure(budget, ask);
    drop(peer);
    found
}

/// Measures every limit that the command line does not exclude. A limit that this machine cannot measure is reported on
/// standard error and left out; if none is left, that is an error.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let budget = super::budget(args);
    if let Some(placement @ (Placement::Inline | Placement::Host)) = args.placement {
        anyhow::bail!("`limits` has no `--placement {placement}`: its sides are threads or processes");
    }
    let mut rows = 0;
    for placement in [Placement::Thread, Placement::Process] {
        if args.placement.is_some_and(|wanted| wanted != placement) {
            continue;
        }
        for limit in Limit::ALL {
            let wait = limit.wait();
            if matches!(args.wait, Some(wanted @ (Wait::Spin | Wait::Park)) if wait.is_some_and(|wait| wait != wanted))
            {
                continue;
            }
            if limit == Limit::Memcpy && placement == Placement::Process && args.placement.is_none() {
                continue; // a copy has no second side: its row is printed with those of threads
            }
            let payload = if limit.carries_payload() {
                args.payload.unwrap_or(PAYLOAD_BYTES)
            } else {
                SIGNAL_BYTES
            };
            let repeats: anyhow::Result<Vec<Summary>> = (0..REPEATS)
                .map(|_| limit.measure(placement, payload as usize, budget))
                .collect();
            match repeats {
                Ok(repeats) => {
                    let Some(found) = Summary::median(&repeats) else {
                        continue;
                    };
                    let mut record = Record::new(Case::Limits, payload, &found);
                    if let Some(wait) = wait {
                        record = record.placed(placement, wait);
                    }
                    record.limit = Some(limit.name().to_owned());
                    report.row(&record)?;
                    rows += 1;
                }
                Err(error) => eprintln!("{} ({placement}) left out: {error:#}", limit.name()),
            }
        }
    }
    anyhow::ensure!(rows > 0, "no limit was measured (the lines above say why)");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    /// The process side needs the `selvedge` command itself, so `tests/limits.rs` covers it.
    #[test]
    fn every_limit_can_be_measured_between_threads() {
        for limit in Limit::ALL {
            if limit.cores().pair().is_err() {
                continue; // the machine has one core
            }
            let found = limit.measure(Placement::Thread, 4096, SHORT).unwrap();
            assert!(
                found.p50_ns > 0.0 && found.p50_ns <= found.p99_ns,
                "{}: {found:?}",
                limit.name()
            );
        }
    }

    #[test]
    fn a_payload_larger_than_the_room_gets_one_slot() {
        assert_eq!(
            hand_off::forms(1 << 30),
            [Slots {
                count: 1,
                payload_bytes: 1 << 30
            }]
        );
        let counts = |payload_bytes| -> Vec<usize> {
            let forms = hand_off::forms(payload_bytes);
            forms.iter().map(|slots| slots.count).collect()
        };
        assert_eq!(counts(64 << 20), [1, 2, 8]);
        assert_eq!(counts(65 << 20), [1, 2]);
    }
}
