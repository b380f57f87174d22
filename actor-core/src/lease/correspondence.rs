//! Letters between the processes in which the programs of a lease run.
//!
//! Programs of one host share memory. Those of several hosts tell each other by letters of the hub what is in it: each
//! process has a [`Correspondent`], and all of them have one [`CorrespondenceId`], which the driver chooses. A letter
//! arrives once, and letters of one stream in order, over any number of connections that break.
//!
//! - `CORR-1` a letter for a correspondent that is not there is dropped. If it was for the driver's, its sender hears
//!   of that ([`Correspondent::ended`]), so a process that loads its programs when the driver has given them up ends
//!   them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, PartMemory, Service};
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_cluster::session::Outcome;
use serde::{Deserialize, Serialize};

use crate::body::{Body, BodyMemory, LentMemory};
use crate::hub::post::{Letter, Post, Receiver};
use crate::id::ProcessId;
use crate::process_name::ProcessName;
use crate::reference::edge::EdgePeers;
use crate::runtime::Runtime;

/// The service of programs.
pub(crate) const PROGRAMS: Service = Service(19);

/// The number of a correspondence, which no other one of its driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrespondenceId(u64);

impl CorrespondenceId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the numbers only have to differ.
        CorrespondenceId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The receiver of a correspondence's letters in one process. Called on the thread that reads the link of their sender:
/// must not block and must not run user code.
pub trait Correspondent: Send + Sync {
    /// A letter has arrived. Its bytes are whatever the other process has sent, and nobody else has the body.
    fn received(&self, from: ProcessId, words: &[u8], body: Bytes);

    /// A long letter with these words has begun to arrive: memory for its body of `bytes` bytes, if there is a better place for it than
    /// memory of the hub. The letter is received with that memory as its body; if the peer dies before, or the connection breaks early, the
    /// memory is dropped, and asked for once more if the letter begins again. Letters of other streams may arrive meanwhile.
    fn lend(&self, _from: ProcessId, _words: &[u8], _bytes: usize) -> Option<Box<dyn LentMemory>> {
        None
    }

    /// A process of the correspondence is dead, or cannot be reached; no letter of it follows.
    fn lost(&self, process: ProcessId);

    /// The driver knows the correspondence no longer.
    fn ended(&self);
}

/// The beginning of a letter's head.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum CorrespondenceHead {
    /// Words for a correspondent follow.
    Words { to: CorrespondenceId },
    /// The driver has no such correspondence.
    Ended { known: CorrespondenceId },
}

/// A correspondence that is open in this process.
struct OpenCorrespondence {
    peers: EdgePeers,
    hears: Weak<dyn Correspondent>,
}

/// The correspondences of a process.
pub(crate) struct Correspondences {
    post: Arc<dyn Post>,
    open: Mutex<IdMap<u64, OpenCorrespondence>>,
}

impl Correspondences {
    pub(crate) fn new(post: Arc<dyn Post>) -> Arc<Self> {
        Arc::new(Correspondences {
            post,
            open: Mutex::default(),
        })
    }

    /// The correspondent here, and the process of the peer; `None` if there is no such correspondent, or the peer takes
    /// no part.
    fn find(&self, id: CorrespondenceId, peer: Peer) -> Option<(ProcessId, Arc<dyn Correspondent>)> {
        let open = self.open.lock();
        let known = open.get(&id.0)?;
        Some((known.peers.process_of(peer)?, known.hears.upgrade()?))
    }

    fn post_to(
        &self,
        to: Peer,
        stream: u64,
        head: CorrespondenceHead,
        words: &impl Serialize,
        body: Body,
    ) -> Result<(), String> {
        let letter = Letter {
            stream,
            ..Letter::new(PROGRAMS, Class::Ordered, &(head, words), body)
        };
        let sent = self.post.send(to, letter);
        sent.map(drop).map_err(|error| error.to_string())
    }
}

impl Receiver for Correspondences {
    fn received(&self, from: Peer, letter: Letter) {
        let (head, words) = match postcard::take_from_bytes(&letter.head) {
            Ok(read) => read,
            Err(error) => return self.post.cut(from, format!("a letter about a program: {error}")),
        };
        match head {
            CorrespondenceHead::Words { to } => match self.find(to, from) {
                Some((process, hears)) => hears.received(process, words, letter.body.into_bytes()),
                None if self.post.me().process == selvedge_cluster::peer::ProcessId::HEAD => {
                    // If it cannot be sent, the peer is dead.
                    let _ = self.post_to(from, 0, CorrespondenceHead::Ended { known: to }, &(), Body::EMPTY);
                }
                None => {}
            },
            CorrespondenceHead::Ended { known } => {
                if let Some((ProcessId::DRIVER, hears)) = self.find(known, from) {
                    hears.ended();
                }
            }
        }
    }

    fn lend(&self, from: Peer, head: &[u8], bytes: usize) -> Option<Box<dyn LentMemory>> {
        let (head, words) = postcard::take_from_bytes(head).ok()?;
        match head {
            CorrespondenceHead::Words { to } => {
                let (process, hears) = self.find(to, from)?;
                hears.lend(process, words, bytes)
            }
            CorrespondenceHead::Ended { .. } => None,
        }
    }

    fn died(&self, peer: Peer, _: &[(u64, Outcome)]) {
        let concerned: Vec<_> = {
            let open = self.open.lock();
            let of_peer =
                |known: &OpenCorrespondence| Some((known.peers.process_of(peer)?, known.hears.upgrade()?));
            open.values().filter_map(of_peer).collect()
        };
        for (process, hears) in concerned {
            hears.lost(process);
        }
    }
}

/// One process's part in a correspondence. Its drop ends the part: letters that come later are dropped.
pub struct Correspondence {
    service: Arc<Correspondences>,
    id: CorrespondenceId,
    peers: EdgePeers,
}

impl Correspondence {
    /// The driver's part in a new correspondence between these processes.
    pub(super) fn begin(runtime: &Runtime, peers: EdgePeers) -> Self {
        Self::join(runtime, CorrespondenceId::next(), peers)
    }

    /// A worker's part in a correspondence that its driver has begun.
    #[must_use]
    pub fn join(runtime: &Runtime, id: CorrespondenceId, peers: EdgePeers) -> Self {
        Correspondence {
            service: Arc::clone(&runtime.remote().correspondences),
            id,
            peers,
        }
    }

    /// The number of the correspondence.
    #[must_use]
    pub fn id(&self) -> CorrespondenceId {
        self.id
    }

    /// A process that takes part, as errors name it.
    #[must_use]
    pub fn name_of(&self, process: ProcessId) -> Option<ProcessName> {
        let peer = self.peers.get(process).ok()?;
        Some(self.service.post.names().name(peer.process))
    }

    /// Has a correspondent hear the letters that arrive from now on.
    pub fn hear(&self, hears: Weak<dyn Correspondent>) {
        let open = OpenCorrespondence {
            peers: self.peers.clone(),
            hears,
        };
        self.service.open.lock().insert(self.id.0, open);
    }

    /// Copies bytes into the body of a letter. Long bodies use memory that earlier ones have left.
    ///
    /// # Errors
    /// A text: there is no memory.
    pub fn body_of(bytes: &[u8]) -> Result<Body, String> {
        let memory = BodyMemory::announced(bytes.len());
        let mut memory = memory.ok_or_else(|| format!("there is no memory for {} bytes", bytes.len()))?;
        memory.put(bytes);
        Ok(memory.into())
    }

    /// Sends a letter: words that the correspondent there understands, which gets them as postcard encodes them, and a body of up to
    /// 1 GiB, which is shared and not copied. Letters to a process with the same stream arrive in order; a short one may overtake a long one of another stream. Never blocks
    /// on the other process.
    ///
    /// # Errors
    /// A text: the process is dead or cannot be reached, or the letter is too long.
    pub fn send(&self, to: ProcessId, stream: u32, words: &impl Serialize, body: Body) -> Result<(), String> {
        let peer = self
            .peers
            .get(to)
            .map_err(|process| format!("{process} takes no part"))?;
        let stream = self.id.0 << u32::BITS | u64::from(stream);
        let head = CorrespondenceHead::Words { to: self.id };
        self.service.post_to(peer, stream, head, words, body)
    }
}

impl Drop for Correspondence {
    fn drop(&mut self) {
        let open = self.service.open.lock().remove(&self.id.0);
        drop(open);
    }
}

impl fmt::Debug for Correspondence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Correspondence").field(&self.id.0).finish()
    }
}
