//! A network in memory: every process has a thread that brings its letters, in the order in which they were sent.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;

use crate::hub::post::{Letter, Post, PostError};
use crate::remote::init::WorkerInit;
use crate::remote::message::{CALLS, CallMessage};
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::testing::{peer, wait_until};

/// The length of the longest body, in bytes.
pub(super) const BODY_MAX: usize = 4 << 20;

enum NetworkEvent {
    Letter(Peer, Letter),
    Died(Peer, Vec<(u64, Outcome)>),
}

struct Attached {
    peer: Peer,
    events: Sender<NetworkEvent>,
    /// While it is held, letters to the process are not handed over: with their sender and their number.
    held: Option<Vec<(Peer, u64, Letter)>>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<ProcessId, Attached>,
    dead: Vec<Peer>,
    /// The process that cut another one off, and that one.
    cut: Vec<(ProcessId, ProcessId)>,
    /// The number of further letters that are taken for a process.
    room: BTreeMap<ProcessId, usize>,
    /// The hosts of processes that have one of their own.
    hosts: BTreeMap<ProcessId, String>,
    /// The service and the number of its letters after which those of that service to a process are held.
    hold_after: BTreeMap<ProcessId, (Service, usize)>,
    /// Done before the first letter of calls to a process is taken.
    before_call: BTreeMap<ProcessId, Box<dyn FnOnce() + Send>>,
    /// Sender, addressee and length of each letter that was sent.
    sent: Vec<(ProcessId, ProcessId, usize)>,
}

/// The network. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Network(Arc<Mutex<State>>);

struct Memory {
    network: Network,
    me: Peer,
}

/// A process of the network.
pub(super) struct TestProcess {
    pub(super) peer: Peer,
    pub(super) runtime: Runtime,
}

pub(super) fn id(number: u32) -> ProcessId {
    ProcessId::new(number).unwrap()
}

impl Network {
    /// Processes 1 to `count`.
    pub(super) fn of(count: u32) -> (Self, Vec<TestProcess>) {
        let network = Network::default();
        let processes = (1..=count).map(|number| network.join(number)).collect();
        (network, processes)
    }

    /// One more process. Nobody is told.
    pub(super) fn join(&self, number: u32) -> TestProcess {
        let peer = peer(number);
        let network = self.clone();
        let init = Box::leak(Box::new(WorkerInit::new()));
        let remote = Remote::with_init(Arc::new(Memory { network, me: peer }), init);
        let (events, received) = channel();
        let node = Attached {
            peer,
            events,
            held: None,
        };
        self.0.lock().nodes.insert(peer.process, node);
        // The thread ends with the process's place in the network.
        let receiver = Arc::downgrade(&remote.receiver());
        thread::spawn(move || {
            for event in received {
                let Some(receiver) = receiver.upgrade() else {
                    return;
                };
                match event {
                    NetworkEvent::Letter(from, letter) => receiver.received(from, letter),
                    NetworkEvent::Died(peer, fates) => receiver.died(peer, &fates),
                }
            }
        });
        TestProcess {
            peer,
            runtime: Runtime::with_remote(remote),
        }
    }

    /// Stops the hand-over of letters to a process.
    pub(super) fn hold(&self, number: u32) {
        self.0.lock().nodes.get_mut(&id(number)).unwrap().held = Some(Vec::new());
    }

    /// Has each process be on a host of its own, with memory that no other one maps.
    pub(super) fn spread(&self) {
        let mut state = self.0.lock();
        let hosts = state.nodes.keys().map(|process| (*process, process.to_string()));
        state.hosts = hosts.collect();
    }

    /// Does something before the next letter of calls to a process is taken, on the thread that sends it.
    pub(super) fn before_call(&self, number: u32, work: impl FnOnce() + Send + 'static) {
        self.0.lock().before_call.insert(id(number), Box::new(work));
    }

    /// The letters of calls to a process that are held.
    pub(super) fn held_calls(&self, to: u32) -> Vec<CallMessage> {
        let state = self.0.lock();
        let held = state.nodes[&id(to)].held.iter().flatten();
        let calls = held.filter(|(_, _, letter)| letter.service == CALLS);
        calls
            .filter_map(|(_, _, letter)| CallMessage::of(letter))
            .collect()
    }

    /// Stops the hand-over of the letters of a service to a process after so many of them.
    pub(super) fn hold_after(&self, number: u32, service: Service, letters: usize) {
        let mut state = self.0.lock();
        state.hold_after.insert(id(number), (service, letters));
        state.nodes.get_mut(&id(number)).unwrap().held = Some(Vec::new());
    }

    /// The number of letters of a process to another one that are held.
    pub(super) fn held(&self, from: u32, to: u32) -> usize {
        let state = self.0.lock();
        let held = state.nodes[&id(to)].held.iter().flatten();
        held.filter(|(sender, ..)| sender.process == id(from)).count()
    }

    /// Waits until so many letters of a process to another one are held.
    pub(super) fn wait_until_held(&self, from: u32, to: u32, letters: usize) {
        let what = format!("{letters} letters of {from} to {to}");
        wait_until(&what, || self.held(from, to) >= letters);
    }

    /// Hands over the letters that were held, and further ones.
    pub(super) fn release(&self, number: u32) {
        let mut state = self.0.lock();
        state.hold_after.remove(&id(number));
        let node = state.nodes.get_mut(&id(number)).unwrap();
        for (from, _, letter) in node.held.take().unwrap_or_default() {
            drop(node.events.send(NetworkEvent::Letter(from, letter)));
        }
    }

    /// Takes only so many further letters for a process.
    pub(super) fn limit(&self, number: u32, letters: usize) {
        self.0.lock().room.insert(id(number), letters);
    }

    /// Who has cut off whom.
    pub(super) fn cut(&self) -> Vec<(u32, u32)> {
        let cut = &self.0.lock().cut;
        cut.iter()
            .map(|(by, whom)| (by.number(), whom.number()))
            .collect()
    }

    /// Ends a process, and tells the others.
    pub(super) fn kill(&self, number: u32) {
        let mut state = self.0.lock();
        let dead = state.nodes.remove(&id(number)).unwrap();
        state.dead.push(dead.peer);
        for node in state.nodes.values_mut() {
            // No letter of a dead one follows its death.
            node.held
                .iter_mut()
                .for_each(|held| held.retain(|(from, ..)| *from != dead.peer));
        }
        let held = dead.held.unwrap_or_default();
        for node in state.nodes.values() {
            let fates = held.iter().filter(|(from, ..)| *from == node.peer);
            let fates = fates.map(|(_, number, _)| (*number, Outcome::NotSent)).collect();
            drop(node.events.send(NetworkEvent::Died(dead.peer, fates)));
        }
    }

    /// Sends a letter in the name of another.
    pub(super) fn forge(&self, from: Peer, to: u32, letter: Letter) {
        let state = self.0.lock();
        state.nodes[&id(to)]
            .events
            .send(NetworkEvent::Letter(from, letter))
            .unwrap();
    }

    /// Sender, addressee and length of each letter so far.
    pub(super) fn sent(&self) -> Vec<(u32, u32, usize)> {
        let sent = &self.0.lock().sent;
        sent.iter()
            .map(|(from, to, bytes)| (from.number(), to.number(), *bytes))
            .collect()
    }
}

impl Post for Memory {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> Vec<Peer> {
        let state = self.network.0.lock();
        let peers = state.nodes.values().map(|node| node.peer);
        peers.filter(|peer| *peer != self.me).collect()
    }

    fn has_lived(&self, process: ProcessId) -> bool {
        let state = self.network.0.lock();
        state.dead.iter().any(|dead| dead.process == process)
    }

    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError> {
        assert!(letter.service != CALLS || letter.class == Class::Ordered);
        if letter.service == CALLS {
            let before = self.network.0.lock().before_call.remove(&to.process);
            before.into_iter().for_each(|work| work());
        }
        let mut state = self.network.0.lock();
        let bytes = letter.body.len();
        if bytes > BODY_MAX {
            let limit = BODY_MAX;
            return Err(PostError::TooLarge { bytes, limit });
        }
        if let Some(dead) = [to, self.me].into_iter().find(|peer| state.dead.contains(peer)) {
            return Err(PostError::Dead(dead));
        }
        if let Some(room) = state.room.get_mut(&to.process) {
            let Some(less) = room.checked_sub(1) else {
                let (peer, limit) = (to, 0);
                return Err(PostError::Full { peer, bytes, limit });
            };
            *room = less;
        }
        state.sent.push((self.me.process, to.process, bytes));
        let number = state.sent.len() as u64;
        let is_through = match state.hold_after.get_mut(&to.process) {
            Some((service, _)) if *service != letter.service => true,
            Some((_, left)) => {
                let is_through = *left > 0;
                *left = left.saturating_sub(1);
                is_through
            }
            None => false,
        };
        let node = state.nodes.get_mut(&to.process);
        let node = node.ok_or(PostError::NoSuchPeer(to.process))?;
        match &mut node.held {
            Some(held) if !is_through => held.push((self.me, number, letter)),
            // The test may have ended.
            _ => drop(node.events.send(NetworkEvent::Letter(self.me, letter))),
        }
        Ok(number)
    }

    fn host(&self) -> Option<String> {
        self.network.0.lock().hosts.get(&self.me.process).cloned()
    }

    fn cut(&self, peer: Peer, _: String) {
        self.network.0.lock().cut.push((self.me.process, peer.process));
    }

    // Nothing is due here: letters are not lost.
    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        false
    }
}

/// A place for what a function of a test tells.
pub(super) static TOLD: OnceLock<Mutex<Vec<u64>>> = OnceLock::new();

/// Waits until a function of a test has told `mark`.
pub(super) fn wait_until_told(mark: u64) {
    let told = TOLD.get_or_init(Mutex::default);
    wait_until(&format!("{mark} is told"), || told.lock().contains(&mark));
}
