//! One simulated process: its references and its sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::{Session, SessionSettings};
use selvedge_objects::refs::{Bundle, Parcel, RefId, RefSettings, Refs};

/// The content of a frame.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Ordered: a call with its parcels, under the sender's number.
    Call(Vec<Parcel>),
    /// Ordered: a question for the value of an object.
    Fetch {
        /// The asker's number.
        question: u64,
        /// The object.
        id: RefId,
    },
    /// Ordered: the answer to a fetch.
    Answer {
        /// The asker's number.
        question: u64,
    },
    /// Loose: messages about references.
    References(Bundle),
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its name.
    pub peer: Peer,
    /// Its references.
    pub refs: Refs,
    /// Its sessions, by the index of the other process.
    pub sessions: BTreeMap<usize, Session<Payload>>,
    /// The ordered messages without an outcome that carry parcels, by receiver and sequence number.
    pub on_their_way: BTreeMap<(usize, u64), Vec<Parcel>>,
    /// Calls that have arrived and wait for their references, with the references that they have taken.
    pub calls: BTreeMap<u64, Vec<RefId>>,
    /// The objects that calls are to make, by call.
    pub kept: BTreeMap<u64, RefId>,
    /// Calls that were refused.
    pub refused: BTreeSet<u64>,
    /// Fetches without an answer.
    pub fetches: BTreeMap<u64, RefId>,
    /// The number for the next call or fetch.
    pub next: u64,
    /// Processes that this one knows to be dead.
    pub dead: BTreeSet<usize>,
    /// Whether the process runs.
    pub is_alive: bool,
    /// The time of the next wake-up that is in the queue, for each timer.
    pub wakes: BTreeMap<Option<usize>, Duration>,
}

impl Process {
    /// The process of an index.
    pub fn new(index: usize) -> Self {
        let peer = peer(index);
        Process {
            peer,
            refs: Refs::new(peer, RefSettings::default()),
            sessions: BTreeMap::new(),
            on_their_way: BTreeMap::new(),
            calls: BTreeMap::new(),
            kept: BTreeMap::new(),
            refused: BTreeSet::new(),
            fetches: BTreeMap::new(),
            next: 0,
            dead: BTreeSet::new(),
            is_alive: true,
            wakes: BTreeMap::new(),
        }
    }

    /// The session with another process. Links are up from the beginning, and only lose frames.
    pub fn session(&mut self, now: Duration, to: usize) -> &mut Session<Payload> {
        let local = self.peer;
        self.sessions.entry(to).or_insert_with(|| {
            let mut session = Session::new(local, peer(to), SessionSettings::default());
            let _nothing_to_send_again = session.connected(now, peer(to));
            session
        })
    }

    /// The number for the next call or fetch.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The name of the process of an index.
pub fn peer(index: usize) -> Peer {
    let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
    ProcessId::new(number).unwrap_or(ProcessId::HEAD).first_life()
}

/// The index of a process.
pub fn index(peer: Peer) -> usize {
    peer.process.number() as usize - 1
}
