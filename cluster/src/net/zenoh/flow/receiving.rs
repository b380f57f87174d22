//! The direction of a flow in which the peer writes.

use std::collections::VecDeque;

use super::{FRAGMENT_BYTES, FRAGMENTS};
use crate::net::zenoh::packet::{Fragment, Receipt};

/// The fragments that are read until the peer is told of the room.
const TOLD_EVERY: u64 = FRAGMENTS / 4;

/// The bytes that the peer has written, until this side has read them.
#[derive(Debug, Default)]
pub(super) struct ReceiveSide {
    /// The number of the first fragment that is not there.
    expected: u64,
    /// The fragments from that number on which have arrived too early: the first place is that of `expected`, and is empty.
    early: VecDeque<Option<Arrived>>,
    /// Bytes in order.
    ready: VecDeque<Vec<u8>>,
    /// The bytes of the first of them that were read.
    read: usize,
    /// The number of fragments that are read.
    taken: u64,
    is_complete: bool,
    is_deaf: bool,
    /// Whether the peer waits for a receipt.
    owes: bool,
    /// The limit that the peer was told.
    told: u64,
}

#[derive(Debug)]
struct Arrived {
    bytes: Vec<u8>,
    is_last: bool,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowRead {
    /// The number of bytes, not 0.
    Bytes(usize),
    /// The peer has ended its direction, and all of it was read.
    End,
    /// Nothing is there yet.
    Nothing,
}

impl ReceiveSide {
    pub(super) fn new() -> Self {
        let told = FRAGMENTS;
        ReceiveSide {
            told,
            ..Self::default()
        }
    }

    fn limit(&self) -> u64 {
        self.taken + FRAGMENTS
    }

    /// A fragment has arrived. One that was not to be sent is dropped.
    pub(super) fn receive(&mut self, fragment: Fragment<'_>) {
        self.owes = true;
        let is_wanted = (self.expected..self.limit()).contains(&fragment.number);
        if !is_wanted || self.is_complete || self.is_deaf || fragment.bytes.len() > FRAGMENT_BYTES {
            return;
        }
        let index = usize::try_from(fragment.number - self.expected).unwrap_or(usize::MAX);
        while self.early.len() <= index {
            self.early.push_back(None);
        }
        if let Some(place @ None) = self.early.get_mut(index) {
            *place = Some(Arrived {
                bytes: fragment.bytes.into_owned(),
                is_last: fragment.is_last,
            });
        }
        self.put_in_order();
    }

    fn put_in_order(&mut self) {
        while let Some(Some(_)) = self.early.front() {
            let Some(Some(arrived)) = self.early.pop_front() else {
                break;
            };
            self.expected += 1;
            match arrived.bytes.is_empty() {
                true => self.taken += 1,
                false => self.ready.push_back(arrived.bytes),
            }
            if arrived.is_last {
                self.is_complete = true;
                self.early.clear();
            }
        }
    }

    /// Reads bytes that are there, into a buffer that is not empty.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> FlowRead {
        let mut filled = 0;
        while let Some(first) = self.ready.front()
            && filled < buffer.len()
        {
            let (from, into) = (first.get(self.read..), buffer.get_mut(filled..));
            let (from, into) = (from.unwrap_or_default(), into.unwrap_or_default());
            let length = from.len().min(into.len());
            for (into, from) in into.iter_mut().zip(from) {
                *into = *from;
            }
            (filled, self.read) = (filled + length, self.read + length);
            if length == from.len() {
                self.ready.pop_front();
                (self.taken, self.read) = (self.taken + 1, 0);
            }
        }
        self.owes |= self.limit() - self.told >= TOLD_EVERY && !self.is_complete;
        match filled {
            0 if self.is_complete => FlowRead::End,
            0 => FlowRead::Nothing,
            _ => FlowRead::Bytes(filled),
        }
    }

    /// Ends the reading: the peer is told that nobody reads.
    pub(super) fn refuse(&mut self) {
        self.is_deaf = true;
        self.owes |= !self.is_complete;
        self.early.clear();
        self.ready.clear();
    }

    /// The peer wants a receipt.
    pub(super) fn ask(&mut self) {
        self.owes = true;
    }

    pub(super) fn owes(&self) -> bool {
        self.owes
    }

    /// Whether this side reads no more.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// Whether nothing more is wanted of the peer.
    pub(super) fn is_done(&self) -> bool {
        self.is_complete || self.is_deaf
    }

    /// The bytes that are here and not read.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let early = self.early.iter().flatten().map(|arrived| arrived.bytes.len());
        early.chain(self.ready.iter().map(Vec::len)).sum()
    }

    /// How far this side is, for the peer.
    pub(super) fn receipt(&mut self) -> Receipt {
        self.owes = false;
        self.told = self.limit();
        let early = self.early.iter().skip(1).zip(0..FRAGMENTS);
        let beyond = early.filter(|(place, _)| place.is_some());
        Receipt {
            expected: self.expected,
            beyond: beyond.fold(0, |bits, (_, offset)| bits | 1 << offset),
            limit: self.told,
            is_deaf: self.is_deaf && !self.is_complete,
        }
    }
}
