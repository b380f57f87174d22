//! One pull: the object comes to this host chunk by chunk, from one source after the other.

use selvedge_cluster::id_map::{IdKey, IdMap, IdSet};
use selvedge_cluster::peer::Peer;

use super::mutant::TransferMutant;
use super::name::{CopyAt, CopyFacts};

/// The thing that a pull waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PullPhase {
    /// The owner's answer.
    Seeking,
    /// Memory.
    Reserving,
    /// Chunks.
    Filling,
}

/// A stretch of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ChunkPlace {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl IdKey for ChunkPlace {
    type Number = u128;

    const BITS: u32 = 2 * u64::BITS;

    fn number(self) -> u128 {
        (self.offset, self.bytes).number()
    }
}

/// An object on its way to this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pull {
    /// The name of the memory, which stays over all attempts.
    pub(super) number: u64,
    pub(super) attempt: u64,
    pub(super) waiters: Vec<u64>,
    pub(super) phase: PullPhase,
    pub(super) facts: Option<CopyFacts>,
    /// The copies that can be asked for chunks; the first one is.
    pub(super) sources: Vec<CopyAt>,
    /// The copies that were asked.
    used: IdSet<CopyAt>,
    /// The copies that are asked no more.
    failed: IdSet<CopyAt>,
    /// Whether bytes have come that are not those of the object.
    pub(super) is_damaged: bool,
    /// The first byte that nobody was asked for yet.
    next: u64,
    /// The chunks that a source was asked for which has failed.
    again: IdSet<ChunkPlace>,
    /// The chunks that the source was asked for.
    open: IdSet<ChunkPlace>,
    /// The chunks that have come and are being written.
    writing: IdSet<ChunkPlace>,
    /// The checksums of the chunks that are written.
    written: IdMap<ChunkPlace, u32>,
    /// The sum of their lengths.
    written_bytes: u64,
}

impl Pull {
    pub(super) fn new(number: u64, request: u64) -> Self {
        Pull {
            number,
            attempt: number,
            waiters: vec![request],
            phase: PullPhase::Seeking,
            facts: None,
            sources: Vec::new(),
            used: IdSet::new(),
            failed: IdSet::new(),
            is_damaged: false,
            next: 0,
            again: IdSet::new(),
            open: IdSet::new(),
            writing: IdSet::new(),
            written: IdMap::new(),
            written_bytes: 0,
        }
    }

    /// The source that is asked.
    pub(super) fn source(&self) -> Option<CopyAt> {
        self.sources.first().copied()
    }

    /// Takes the sources that the owner has named, but those that have failed. Returns false if none is left.
    pub(super) fn set_sources(&mut self, me: Peer, sources: &[CopyAt]) -> bool {
        let good = sources
            .iter()
            .filter(|it| it.agent != me && !self.failed.contains(it));
        self.sources = good.copied().collect();
        // Hosts that pull at the same time begin with different sources.
        let turn = me.process.number() as usize % self.sources.len().max(1);
        self.sources.rotate_left(turn);
        !self.sources.is_empty()
    }

    /// The next chunk to ask for, if a credit is left.
    pub(super) fn ask(
        &mut self,
        chunk_bytes: u64,
        credits: usize,
        mutant: TransferMutant,
    ) -> Option<ChunkPlace> {
        let (facts, source) = (self.facts?, self.source()?);
        let in_flight = self.open.len() + self.writing.len();
        if in_flight >= credits && mutant != TransferMutant::KnowsNoCredits {
            return None;
        }
        let stretch = self.again.pop_first().or_else(|| {
            let left = facts.bytes.checked_sub(self.next).filter(|left| *left > 0)?;
            let (offset, bytes) = (self.next, left.min(chunk_bytes));
            self.next += bytes;
            Some(ChunkPlace { offset, bytes })
        })?;
        self.used.insert(source);
        self.open.insert(stretch);
        Some(stretch)
    }

    /// A chunk has come that was asked for.
    pub(super) fn accept(&mut self, chunk: ChunkPlace, mutant: TransferMutant) -> bool {
        let is_asked = self.open.remove(&chunk) || mutant == TransferMutant::TakesAnyChunk;
        is_asked && self.writing.insert(chunk)
    }

    /// A chunk is written.
    pub(super) fn wrote(&mut self, chunk: ChunkPlace, checksum: u32) {
        if self.writing.remove(&chunk) && self.written.insert(chunk, checksum).is_none() {
            self.written_bytes += chunk.bytes;
        }
    }

    /// Whether all bytes are written.
    pub(super) fn is_complete(&self) -> bool {
        self.facts.is_some_and(|facts| self.written_bytes >= facts.bytes)
    }

    /// Whether the bytes are those of the object.
    pub(super) fn is_right(&self) -> bool {
        let mut whole = crc32fast::Hasher::new();
        for (chunk, checksum) in &self.written {
            whole.combine(&crc32fast::Hasher::new_with_initial_len(*checksum, chunk.bytes));
        }
        self.facts.is_some_and(|facts| facts.checksum == whole.finalize())
    }

    /// The bytes are not those of the object, and it is not known whose fault that is: all that were asked are asked no more, and
    /// the pull begins anew.
    pub(super) fn damaged(&mut self) {
        self.is_damaged = true;
        self.failed.extend(std::mem::take(&mut self.used));
        let failed = &self.failed;
        self.sources.retain(|source| !failed.contains(source));
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.next = 0;
        self.again.clear();
        self.open.clear();
        self.written.clear();
        self.written_bytes = 0;
    }

    /// A source gives nothing any more. Returns whether it was the one that was asked: what it was asked for, the next one is.
    pub(super) fn lose(&mut self, is_lost: impl Fn(&CopyAt) -> bool, mutant: TransferMutant) -> bool {
        let was_asked = self.source().is_some_and(|source| is_lost(&source));
        let lost = self.sources.iter().filter(|it| is_lost(it));
        self.failed.extend(lost.copied());
        self.sources.retain(|source| !is_lost(source));
        if was_asked {
            self.again.extend(std::mem::take(&mut self.open));
            if mutant == TransferMutant::StartsAnew {
                self.begin_anew();
            }
        }
        was_asked
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::ProcessId;

    use super::*;

    const BYTES: &[u8] = b"seven bytes and some";

    fn source(number: u32) -> CopyAt {
        let agent = ProcessId::new(number).unwrap().first_life();
        CopyAt { agent, attempt: 1 }
    }

    /// Has all chunks come from the first source. Before the last one the pull is not complete.
    fn fill(pull: &mut Pull, bytes: &[u8]) {
        while let Some(chunk) = pull.ask(7, 2, TransferMutant::None) {
            assert!(!pull.is_complete());
            assert!(pull.accept(chunk, TransferMutant::None));
            let (from, until) = (chunk.offset as usize, (chunk.offset + chunk.bytes) as usize);
            pull.wrote(chunk, crc32fast::hash(&bytes[from..until]));
        }
        assert!(pull.is_complete());
    }

    #[test]
    fn a_pull_that_begins_anew_is_complete_only_with_all_bytes_of_the_next_source() {
        let mut pull = Pull::new(1, 1);
        pull.facts = Some(CopyFacts {
            bytes: BYTES.len() as u64,
            checksum: crc32fast::hash(BYTES),
        });
        let (liar, other) = (source(3), source(6));
        assert!(pull.set_sources(source(8).agent, &[liar, other]));
        assert_eq!(pull.source(), Some(liar));
        fill(&mut pull, &[7; BYTES.len()]);
        assert!(!pull.is_right());
        pull.damaged();
        assert!(!pull.is_complete());
        assert_eq!(pull.source(), Some(other));
        fill(&mut pull, BYTES);
        assert!(pull.is_right());
    }
}
