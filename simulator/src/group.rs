//! A group of NCCL calls, executed by a stream: it starts all calls, takes part in each as soon as all ranks have
//! started it, and ends when all ranks have read the data that they need.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::board::Source;
use crate::communicator::Communicator;
use crate::elements;
use crate::engine::{Reach, Turn};
use crate::history::Intent;
use crate::ledger::LEDGER_BYTES;
use crate::memory::{self, Span, Use};
use crate::rendezvous::{Board, Call, Meeting, Other, Verb};
use crate::report::Line;
use crate::shared::Address;

/// A call with its memory.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) call: Call,
    /// The memory that the call sends; `None` if it sends nothing, or no bytes.
    pub(crate) input: Option<Span>,
    /// The memory that the call receives into; `None` if it receives nothing, or no bytes.
    pub(crate) output: Option<Span>,
}

impl Member {
    /// Returns the memory uses of the call, for the detection of races.
    pub(crate) fn uses(&self) -> impl Iterator<Item = Use> {
        let read = self.input.iter().map(|span| Use::new(span, Intent::Read));
        read.chain(self.output.iter().map(|span| Use::new(span, Intent::Write)))
    }

    fn source(&self) -> Source {
        let Some(span) = &self.input else {
            return Source::default();
        };
        let Address { pid, fd, nonce } = span.allocation.shared().address();
        Source {
            pid,
            fd,
            nonce,
            offset: LEDGER_BYTES as u64 + span.offset,
            len: span.len,
        }
    }
}

/// Reads the bytes of a source, in whatever process they are.
fn fetch(source: Source) -> Option<Vec<u8>> {
    let address = Address {
        pid: source.pid,
        fd: source.fd,
        nonce: source.nonce,
    };
    let mut bytes = vec![0; usize::try_from(source.len).ok()?];
    if !bytes.is_empty() {
        address
            .open()
            .ok()?
            .read_exact_at(&mut bytes, source.offset)
            .ok()?;
    }
    Some(bytes)
}

/// The progress of one call.
enum Progress {
    Started,
    /// The bytes to write to the output of the call.
    Read(Vec<u8>),
    /// The call does not match the calls of other ranks, and never ends.
    Broken,
}

/// A group in flight.
pub(crate) struct Group {
    communicator: Arc<Communicator>,
    members: Vec<Member>,
    progress: Vec<Progress>,
}

impl Group {
    pub(crate) fn new(communicator: Arc<Communicator>, members: Vec<Member>) -> Self {
        let progress = members.iter().map(|_| Progress::Started).collect();
        Group {
            communicator,
            members,
            progress,
        }
    }

    /// Executes the whole group. Returns early when the communicator is aborted.
    pub(crate) fn run(mut self, turn: &mut Turn) {
        let communicator = Arc::clone(&self.communicator);
        let (board, rank) = (&communicator.board, communicator.rank);
        if communicator.is_aborted() {
            return;
        }
        self.post(turn);
        loop {
            let met = self.meetings();
            let nothing_met = met.is_empty();
            for (index, others) in met {
                self.take_part(turn, index, &others);
            }
            let over = || {
                let _guard = board.lock();
                board.load().is_over(rank)
            };
            if communicator.is_aborted() {
                return;
            }
            if over() {
                break;
            }
            if nothing_met {
                let Some(word) = board.word() else {
                    return;
                };
                let reach = if communicator.is_within_process() {
                    Reach::Process
                } else {
                    Reach::Outside
                };
                turn.wait_shared(board.key(), reach, word, || {
                    communicator.is_aborted() || over() || self.anything_met()
                });
            }
        }
        self.finish();
    }

    fn post(&self, turn: &Turn) {
        let (board, rank) = (&self.communicator.board, self.communicator.rank);
        let calls: Vec<Call> = self.members.iter().map(|member| member.call).collect();
        let sources: Vec<Source> = self.members.iter().map(Member::source).collect();
        {
            let _guard = board.lock();
            let mut all = board.load();
            all.post(rank, &calls);
            board.set_clock(rank, &turn.clock);
            if let Some(party) = all.parties.get(rank) {
                board.save(rank, party, &sources);
            }
        }
        board.ring();
    }

    fn started(&self) -> impl Iterator<Item = usize> {
        let started =
            |(index, progress): (usize, &Progress)| matches!(progress, Progress::Started).then_some(index);
        self.progress.iter().enumerate().filter_map(started)
    }

    fn board(&self) -> Board {
        let _guard = self.communicator.board.lock();
        self.communicator.board.load()
    }

    fn anything_met(&self) -> bool {
        let board = self.board();
        let rank = self.communicator.rank;
        self.started()
            .any(|index| !matches!(board.meet(rank, index), Meeting::Waits))
    }

    /// Returns the calls that all ranks have started. Each mismatch is reported once.
    fn meetings(&mut self) -> Vec<(usize, Vec<Other>)> {
        let board = self.board();
        let mut met = Vec::new();
        for index in self.started().collect::<Vec<_>>() {
            match board.meet(self.communicator.rank, index) {
                Meeting::Waits => {}
                Meeting::Met(others) => met.push((index, others)),
                Meeting::Mismatch(other, theirs) => {
                    self.tell_mismatch(index, other, &theirs);
                    self.set(index, Progress::Broken);
                }
            }
        }
        met
    }

    fn set(&mut self, index: usize, progress: Progress) {
        if let Some(slot) = self.progress.get_mut(index) {
            *slot = progress;
        }
    }

    fn tell_mismatch(&self, index: usize, other: usize, theirs: &Call) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        let mine = &member.call;
        Line::new("mismatch")
            .number("rank", self.communicator.rank as u64)
            .text("operation", mine.verb.name())
            .text("call", &format!("{mine:?}"))
            .number("other_rank", other as u64)
            .text("other", theirs.verb.name())
            .text("other_call", &format!("{theirs:?}"))
            .violation();
    }

    /// Reads the data that this rank needs for a call, and merges the clocks that order it.
    fn take_part(&mut self, turn: &mut Turn, index: usize, others: &[Other]) {
        let Some(Member { call, .. }) = self.members.get(index).cloned() else {
            return;
        };
        let (board, rank) = (&self.communicator.board, self.communicator.rank);
        let root = call.peer as usize;
        let mut parties: Vec<Other> = others.to_vec();
        if !matches!(call.verb, Verb::Send | Verb::Receive) {
            parties.push(Other { rank, index });
            parties.sort_unstable_by_key(|party| party.rank);
        }
        // The ranks whose data this rank receives: on a device, a sender or a root that only sends need not have waited
        // for any other rank.
        let heard: Vec<Other> = match call.verb {
            Verb::AllReduce | Verb::ReduceScatter | Verb::AllGather | Verb::Receive => parties,
            Verb::Broadcast => parties.into_iter().filter(|party| party.rank == root).collect(),
            Verb::Reduce if rank == root => parties,
            Verb::Reduce | Verb::Send => Vec::new(),
        };
        let mut inputs = Vec::new();
        for party in heard {
            turn.clock.merge(&board.clock(party.rank));
            let Some(bytes) = fetch(board.source(party.rank, party.index)) else {
                // The other process has ended, or its rank has aborted and freed the memory: this call never ends
                // either.
                self.set(index, Progress::Broken);
                return;
            };
            inputs.push(bytes);
        }
        self.set(index, Progress::Read(outcome(&call, rank, &inputs)));
        let board = &self.communicator.board;
        {
            let _guard = board.lock();
            let mut all = board.load();
            all.has_read(rank, index);
            let sources: Vec<Source> = self.members.iter().map(Member::source).collect();
            if let Some(party) = all.parties.get(rank) {
                board.save(rank, party, &sources);
            }
        }
        board.ring();
    }

    /// Writes the received bytes. All ranks have read their inputs, so these may be overwritten.
    fn finish(self) {
        for (member, progress) in self.members.iter().zip(&self.progress) {
            if let (Some(output), Progress::Read(bytes)) = (&member.output, progress) {
                memory::write(std::slice::from_ref(output), bytes);
            }
        }
        let (board, rank) = (&self.communicator.board, self.communicator.rank);
        {
            let _guard = board.lock();
            let mut all = board.load();
            all.finish(rank);
            if let Some(party) = all.parties.get(rank) {
                board.save(rank, party, &[]);
            }
        }
        board.ring();
    }
}

/// Computes the bytes that a rank receives, from the inputs of the ranks that it receives from, in the order of the
/// ranks.
fn outcome(call: &Call, rank: usize, inputs: &[Vec<u8>]) -> Vec<u8> {
    match call.verb {
        Verb::AllReduce => elements::reduce(call.elements, call.reduction, inputs),
        Verb::Reduce if inputs.is_empty() => Vec::new(),
        Verb::Reduce => elements::reduce(call.elements, call.reduction, inputs),
        Verb::ReduceScatter => {
            let len = (call.count * elements::size_bytes(call.elements).unwrap_or(0)) as usize;
            let slice = |input: &Vec<u8>| input.get(rank * len..(rank + 1) * len).unwrap_or(&[]).to_vec();
            let slices: Vec<Vec<u8>> = inputs.iter().map(slice).collect();
            elements::reduce(call.elements, call.reduction, &slices)
        }
        Verb::AllGather | Verb::Broadcast | Verb::Receive => inputs.concat(),
        Verb::Send => Vec::new(),
    }
}
