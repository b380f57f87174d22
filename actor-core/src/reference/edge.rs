//! Edges: how references leave and enter values that graphs send from process to process.
//!
//! Such a value goes through a channel in shared memory, and no letter goes along. So the parcels travel in its message,
//! as [records](selvedge_channels::RecordsOut): the writer passes each reference to each reading process, and each reader
//! takes the parcels of its records over, also of a message that it skips. Nobody waits for an owner: a reference that
//! is passed on is held by its parent until the owner has listed the receiver, and until then it is as good as
//! confirmed.
//!
//! - `EDGE-1`: the parcels of a message are taken over by their reader, or taken back by their writer, or struck off with
//!   the death of one of the two. Forks have numbers, so one that is settled twice is settled once.

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_channels::{ChannelError, RECORD_BYTES, Record, RecordsIn, RecordsOut, TakenOver};
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Parcel, RefError};
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use super::references::References;
use super::transit::{arriving, leaving};
use crate::id::ProcessId;
use crate::runtime::Runtime;

/// The processes of a graph, as its edges know them.
#[doc(hidden)] // for the compiler
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EdgePeers(Vec<(ProcessId, Peer)>);

impl EdgePeers {
    pub(crate) fn of(peers: impl Iterator<Item = (ProcessId, Peer)>) -> Self {
        EdgePeers(peers.collect())
    }

    /// The process of a peer; `None` if it takes no part in the graph.
    pub(crate) fn process_of(&self, peer: Peer) -> Option<ProcessId> {
        let found = self.0.iter().find(|(_, known)| *known == peer);
        found.map(|(process, _)| *process)
    }

    /// The peer of a process.
    ///
    /// # Errors
    /// The process, if it is not among those of the graph.
    pub(crate) fn get(&self, process: ProcessId) -> Result<Peer, ProcessId> {
        let found = self.0.iter().find(|(known, _)| *known == process);
        found.map(|(_, peer)| *peer).ok_or(process)
    }
}

/// The references of this process, as the ends of a graph's edges need them.
#[doc(hidden)] // for the compiler
#[derive(Clone, Debug)]
pub struct EdgeReferences {
    references: Arc<References>,
    peers: EdgePeers,
}

impl EdgeReferences {
    pub(crate) fn new(references: &Arc<References>, peers: EdgePeers) -> Self {
        EdgeReferences {
            references: Arc::clone(references),
            peers,
        }
    }

    /// The references of this process, in this runtime.
    pub fn of(runtime: &Runtime, peers: EdgePeers) -> Self {
        Self::new(&runtime.remote().references, peers)
    }

    /// The processes of the graph.
    pub fn peers(&self) -> &EdgePeers {
        &self.peers
    }

    /// The writing side of an edge to readers in these processes.
    ///
    /// # Errors
    /// A reader that is not among the processes of the graph.
    pub fn writer(&self, readers: impl Iterator<Item = ProcessId>) -> Result<Box<dyn RecordsOut>, ProcessId> {
        let readers: Result<_, _> = readers.map(|reader| self.peers.get(reader)).collect();
        Ok(Box::new(EdgeWriter {
            references: Arc::clone(&self.references),
            readers: readers?,
            sent: VecDeque::new(),
        }))
    }

    /// The reading side of an edge from this process.
    ///
    /// # Errors
    /// The process, if it is not among those of the graph.
    pub fn reader(&self, writer: ProcessId) -> Result<Box<dyn RecordsIn>, ProcessId> {
        Ok(Box::new(EdgeReader {
            references: Arc::clone(&self.references),
            writer: self.peers.get(writer)?,
        }))
    }
}

/// A message that was sent, until all readers have passed it.
struct SentMessage {
    number: u64,
    /// The parcels of each reader.
    parcels: Vec<Vec<Parcel>>,
}

struct EdgeWriter {
    references: Arc<References>,
    readers: Vec<Peer>,
    /// The messages with references that some reader may not have passed: no more than the channel has slots.
    sent: VecDeque<SentMessage>,
}

impl EdgeWriter {
    /// Passes references to every reader, or to none.
    fn pass_to_all(&self, number: u64, handles: &[Arc<Handle>]) -> Result<SentMessage, RefError> {
        let parcels = Vec::with_capacity(self.readers.len());
        let mut message = SentMessage { number, parcels };
        for reader in &self.readers {
            match self.references.pass(handles, *reader) {
                Ok(parcels) => message.parcels.push(parcels),
                Err(error) => {
                    self.undo(&message, |_| true);
                    return Err(error);
                }
            }
        }
        Ok(message)
    }

    /// Takes back what was passed to some of the readers.
    fn undo(&self, message: &SentMessage, is_meant: impl Fn(usize) -> bool) {
        for (index, (reader, parcels)) in self.readers.iter().zip(&message.parcels).enumerate() {
            if is_meant(index) {
                self.references.take_back(*reader, parcels);
            }
        }
    }
}

impl RecordsOut for EdgeWriter {
    fn pass(&mut self, number: u64, encode: &mut dyn FnMut() -> bool) -> Result<Vec<Record>, ChannelError> {
        let (is_encoded, handles) = leaving(encode);
        if !is_encoded || handles.is_empty() {
            return Ok(Vec::new());
        }
        let message = self.pass_to_all(number, &handles).map_err(refused)?;
        let records: Result<Vec<_>, _> = message.parcels.iter().flatten().map(record).collect();
        self.sent.push_back(message);
        if records.is_err() {
            self.take_back(number);
        }
        records
    }

    fn take_back(&mut self, number: u64) {
        if let Some(message) = self.sent.pop_back_if(|message| message.number == number) {
            self.undo(&message, |_| true);
        }
    }

    fn settle(&mut self, passed: u64, left: &[(u32, u64)]) {
        while let Some(message) = self.sent.pop_front_if(|message| message.number < passed) {
            self.undo(&message, |reader| {
                left.iter()
                    .any(|(index, seen)| *index as usize == reader && *seen <= message.number)
            });
        }
    }
}

struct EdgeReader {
    references: Arc<References>,
    writer: Peer,
}

impl RecordsIn for EdgeReader {
    fn take_over(&mut self, records: &[Record]) -> Result<Box<dyn TakenOver>, ChannelError> {
        let parcels: Result<_, _> = records.iter().map(parcel).collect();
        let handles = self
            .references
            .take_over(self.writer, parcels?)
            .map_err(refused)?;
        Ok(Box::new(TakenReferences(handles)))
    }
}

/// The references of a message.
struct TakenReferences(Vec<Arc<Handle>>);

impl TakenOver for TakenReferences {
    fn decode(&self, decode: &mut dyn FnMut()) {
        arriving(self.0.clone(), decode);
    }
}

fn refused(error: RefError) -> ChannelError {
    match error {
        // The graph ends for this death, or with this process.
        RefError::Dead(_) | RefError::Ending(_) => ChannelError::Closed,
        error => ChannelError::Record(Box::new(error)),
    }
}

fn record(parcel: &Parcel) -> Result<Record, ChannelError> {
    let mut record = [0; RECORD_BYTES];
    match postcard::to_slice(parcel, &mut record) {
        Ok(_) => Ok(record),
        Err(error) => Err(ChannelError::Record(Box::new(error))),
    }
}

fn parcel(record: &Record) -> Result<Parcel, ChannelError> {
    let parcel = postcard::take_from_bytes(record).map(|(parcel, _)| parcel);
    parcel.map_err(|_| ChannelError::Corrupt {
        what: "a record that is no reference",
    })
}
