//! Stores of host agents whose letters the test carries.
#![cfg(all(target_os = "linux", not(selvedge_portable)))]

mod ends;
mod full;
mod without_thread;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::{CopyName, TransferMessage};

use super::borrowed::Sealed;
use super::host_store::HeldObject;
use super::message::TRANSFERS;
use super::options::StoreOptions;
use super::placed::PlacedObject;
use super::stores::Stores;
use crate::body::Body;
use crate::hub::post::{Letter, Post, PostError};
use crate::remote::threads::Threads;
use crate::testing::{peer, wait_until};

/// The bytes of a store, and of an object that fills it.
const BYTES: usize = 3 << 20;

struct SentByAgent {
    me: Peer,
    peers: Vec<Peer>,
    letters: Mutex<Vec<(Peer, Letter)>>,
    /// What would run on the thread of the links' tasks.
    tasks: Mutex<Vec<LinkTaskBox>>,
}

type LinkTaskBox = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Post for SentByAgent {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> Vec<Peer> {
        self.peers.clone()
    }

    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError> {
        self.letters.lock().push((to, letter));
        Ok(0)
    }

    fn cut(&self, peer: Peer, why: String) {
        panic!("{peer} is cut off: {why}");
    }

    fn spawn(&self, task: LinkTaskBox) -> bool {
        self.tasks.lock().push(task);
        true
    }
}

/// An object that is wanted, once it is there or does not come.
type WantedObject = Arc<Mutex<Option<Result<Arc<HeldObject>, StoreError>>>>;

/// The agent of a host of its own.
struct TestAgent {
    me: Peer,
    outbox: Arc<SentByAgent>,
    stores: Arc<Stores>,
}

/// The bytes of an object.
fn content(seed: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at / 1000) as u8 ^ seed).collect()
}

impl TestAgent {
    fn new(number: u32, others: &[u32]) -> Self {
        let me = peer(number);
        let outbox = Arc::new(SentByAgent {
            me,
            peers: others.iter().map(|other| peer(*other)).collect(),
            letters: Mutex::default(),
            tasks: Mutex::default(),
        });
        let post = Arc::clone(&outbox) as Arc<dyn Post>;
        let stores = Stores::new(post, &Threads::default(), Arc::new(drop));
        stores.set_options(
            StoreOptions::new()
                .bytes(BYTES as u64)
                .spill(std::env::temp_dir()),
        );
        TestAgent { me, outbox, stores }
    }

    /// An object of this process in its store, which other hosts may pull.
    fn put(&self, seed: u8) -> PlacedObject {
        let held = self.filled(seed);
        let placed = PlacedObject::here(&self.stores, held);
        placed.name();
        placed
    }

    fn filled(&self, seed: u8) -> HeldObject {
        let mut lent = self.stores.own_store().unwrap().borrow_here(BYTES as u64);
        let mut lent = lent.wait(None).unwrap().unwrap().unwrap();
        let fill = |memory: &mut [u8]| {
            memory.copy_from_slice(&content(seed));
            Ok::<(), StoreError>(())
        };
        lent.fill(BYTES, fill).unwrap();
        match lent.seal() {
            Some(Sealed::Here(held)) => held,
            _ => panic!("it is not sealed"),
        }
    }

    /// The letters about copies that this agent has sent.
    fn sent(&self) -> Vec<TransferMessage> {
        let letters = self.outbox.letters.lock();
        let of_copies = letters.iter().filter(|(_, letter)| letter.service == TRANSFERS);
        of_copies
            .map(|(_, letter)| postcard::from_bytes(&letter.head).unwrap())
            .collect()
    }

    /// Hears a message about a copy.
    fn hear(&self, from: Peer, message: &TransferMessage) {
        let letter = Letter::new(TRANSFERS, Class::Ordered, message, Body::EMPTY);
        self.stores.received(from, letter);
    }

    /// Waits until this agent has sent such a letter about a copy.
    #[track_caller]
    fn wait_until_sent(&self, is_it: impl Fn(&TransferMessage) -> bool) {
        wait_until("it is sent", || self.sent().iter().any(&is_it));
    }

    /// Hands over what this agent has sent to another one.
    fn carry_to(&self, other: &TestAgent) {
        let letters = std::mem::take(&mut *self.outbox.letters.lock());
        for (to, letter) in letters {
            assert_eq!(to, other.me);
            other.stores.received(self.me, letter);
        }
    }

    /// Wants an object of another process.
    fn want(&self, name: CopyName, owner: Peer) -> WantedObject {
        let place = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&place);
        self.stores
            .transfers()
            .open(name, owner, move |held| *kept.lock() = Some(held));
        place
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.stores.stop();
    }
}
