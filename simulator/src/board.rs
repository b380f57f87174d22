//! The layout of a communicator's board in memory that all its ranks map.
//!
//! Every rank has an area that only this rank writes. All changes happen under the lock; a rank that has changed
//! something rings the board's futex word.
#![allow(unsafe_code)] // declares a record as plain data

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::clock::VectorClock;
use crate::engine::{self, Key};
use crate::ledger::{self, CLOCK_BYTES};
use crate::rendezvous::{Board, Call, Party, Posted, Verb};
use crate::shared::{Address, Guard, HEADER_BYTES, Plain, Shared};

/// The most ranks of a communicator.
pub(crate) const RANKS_MAX: usize = 64;
/// The most calls in a group.
pub(crate) const GROUP_MAX: usize = 256;

const RANKS_AT: usize = HEADER_BYTES;
const WORD_AT: usize = HEADER_BYTES + 8;
const AREAS_AT: usize = 4096;

/// Offsets in a rank's area.
const PID_AT: usize = 0;
const GONE_AT: usize = 8;
const COLLECTIVES_AT: usize = 16;
const CALLS_AT: usize = 24;
const SENDS_AT: usize = 64;
const RECEIVES_AT: usize = SENDS_AT + RANKS_MAX * 8;
const CLOCK_AT: usize = 4096;
const GROUP_AT: usize = CLOCK_AT + CLOCK_BYTES;
const AREA_BYTES: usize = (GROUP_AT + GROUP_MAX * size_of::<Record>()).next_multiple_of(4096);

/// Bytes of a device that a call sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Source {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) nonce: u64,
    /// The offset of the bytes in the file.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A posted call as it is stored in memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    verb: u32,
    elements: u32,
    reduction: u32,
    peer: u32,
    count: u64,
    number: u64,
    has_read: u64,
    source: Source,
}

// SAFETY: the fields are numbers, without padding.
unsafe impl Plain for Record {}

impl Record {
    fn posted(&self) -> Option<Posted> {
        let verb = *Verb::ALL.get(self.verb as usize)?;
        Some(Posted {
            call: Call {
                verb,
                count: self.count,
                elements: self.elements,
                reduction: self.reduction,
                peer: self.peer,
            },
            number: self.number,
            has_read: self.has_read != 0,
        })
    }

    fn of(posted: &Posted, source: Source) -> Self {
        let Call {
            verb,
            count,
            elements,
            reduction,
            peer,
        } = posted.call;
        let verb = Verb::ALL
            .iter()
            .position(|one| *one == verb)
            .unwrap_or(usize::MAX);
        Record {
            verb: verb as u32,
            elements,
            reduction,
            peer,
            count,
            number: posted.number,
            has_read: u64::from(posted.has_read),
            source,
        }
    }
}

/// The shared memory of a communicator.
#[derive(Clone, Debug)]
pub(crate) struct SharedBoard(Arc<Shared>);

impl SharedBoard {
    pub(crate) fn create() -> io::Result<Self> {
        let shared = Shared::create(AREAS_AT + RANKS_MAX * AREA_BYTES)?;
        Ok(SharedBoard(Arc::new(shared)))
    }

    pub(crate) fn open(address: Address) -> io::Result<Self> {
        let shared = Shared::open(address)?;
        if shared.len() != AREAS_AT + RANKS_MAX * AREA_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(SharedBoard(Arc::new(shared)))
    }

    pub(crate) fn address(&self) -> Address {
        self.0.address()
    }

    pub(crate) fn key(&self) -> Key {
        Key::Shared(self.0.address().nonce)
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        self.0.lock(true)
    }

    pub(crate) fn word(&self) -> Option<&AtomicU32> {
        self.0.word(WORD_AT)
    }

    /// Notifies all waiting ranks, so that they look at the board again.
    pub(crate) fn ring(&self) {
        if let Some(word) = self.word() {
            engine::ring(word, self.key());
        }
    }

    fn area(rank: usize) -> usize {
        AREAS_AT + rank.min(RANKS_MAX - 1) * AREA_BYTES
    }

    /// Returns the number of ranks; 0 before the first has joined.
    pub(crate) fn ranks(&self) -> usize {
        usize::try_from(self.0.get::<u64>(RANKS_AT))
            .unwrap_or(0)
            .min(RANKS_MAX)
    }

    pub(crate) fn set_ranks(&self, ranks: usize) {
        self.0.set(RANKS_AT, ranks as u64);
    }

    /// Returns the process of a rank; 0 before the rank has joined.
    pub(crate) fn pid(&self, rank: usize) -> u32 {
        self.0.get(Self::area(rank) + PID_AT)
    }

    pub(crate) fn set_pid(&self, rank: usize, pid: u32) {
        self.0.set(Self::area(rank) + PID_AT, pid);
    }

    /// Whether all ranks have joined.
    pub(crate) fn is_complete(&self) -> bool {
        let ranks = self.ranks();
        ranks > 0 && (0..ranks).all(|rank| self.pid(rank) != 0)
    }

    pub(crate) fn set_gone(&self, rank: usize) {
        self.0.set(Self::area(rank) + GONE_AT, 1_u64);
    }

    /// Reads the whole board. The caller holds the lock.
    pub(crate) fn load(&self) -> Board {
        Board {
            parties: (0..self.ranks()).map(|rank| self.party(rank)).collect(),
        }
    }

    fn party(&self, rank: usize) -> Party {
        let area = Self::area(rank);
        let number = |at: usize| self.0.get::<u64>(area + at);
        let numbers = |at: usize| (0..self.ranks()).map(|peer| number(at + peer * 8)).collect();
        let calls = usize::try_from(number(CALLS_AT)).unwrap_or(0).min(GROUP_MAX);
        Party {
            gone: number(GONE_AT) != 0,
            collectives: number(COLLECTIVES_AT),
            sends: numbers(SENDS_AT),
            receives: numbers(RECEIVES_AT),
            group: (0..calls)
                .filter_map(|index| self.record(rank, index).posted())
                .collect(),
        }
    }

    fn record(&self, rank: usize, index: usize) -> Record {
        self.0
            .get(Self::area(rank) + GROUP_AT + index * size_of::<Record>())
    }

    /// Writes one rank's party, with the sources of its calls. The caller holds the lock.
    pub(crate) fn save(&self, rank: usize, party: &Party, sources: &[Source]) {
        let area = Self::area(rank);
        for (index, posted) in party.group.iter().take(GROUP_MAX).enumerate() {
            let source = sources.get(index).copied().unwrap_or_default();
            let at = area + GROUP_AT + index * size_of::<Record>();
            self.0.set(at, Record::of(posted, source));
        }
        for (index, count) in party.sends.iter().enumerate() {
            self.0.set(area + SENDS_AT + index * 8, *count);
        }
        for (index, count) in party.receives.iter().enumerate() {
            self.0.set(area + RECEIVES_AT + index * 8, *count);
        }
        self.0.set(area + COLLECTIVES_AT, party.collectives);
        self.0
            .set(area + CALLS_AT, party.group.len().min(GROUP_MAX) as u64);
    }

    /// Returns the bytes that a call sends.
    pub(crate) fn source(&self, rank: usize, index: usize) -> Source {
        self.record(rank, index).source
    }

    /// Returns the clock of a rank at the start of its group.
    pub(crate) fn clock(&self, rank: usize) -> VectorClock {
        ledger::clock(&self.0, Self::area(rank) + CLOCK_AT)
    }

    pub(crate) fn set_clock(&self, rank: usize, clock: &VectorClock) {
        ledger::set_clock(&self.0, Self::area(rank) + CLOCK_AT, clock);
    }
}
