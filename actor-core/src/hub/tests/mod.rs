//! Tests of the hub: `pairs` has the hubs of several processes within one, `lead` a thread that reads links while it waits, `rings`
//! links whose rings are full or watched, both with a `duo` of hubs, `resume` links over connections that are reset, `hostile` a peer
//! written by hand over a `raw_end`, `members` all orders of joins, deaths and links, `at_scale` the members of a large cluster
//! in virtual time, and `processes` real workers, whose hubs obey the orders of a test service.

mod at_scale;
mod duo;
mod hostile;
mod lead;
#[cfg(feature = "hosts")]
mod members;
mod pairs;
mod processes;
mod puppet;
mod raw_end;
mod resume;
mod rings;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_cluster::session::{Outcome, SessionSettings};

use super::broker::Courier;
use super::notice::Notice;
use super::post::{Letter, Receiver};
use super::{Hub, LinkSettings};
use crate::body::{Body, LentMemory};
use crate::platform::peer_socket::PeerEnd;

/// A time limit that is long enough for a busy machine, and short enough to reveal a hang.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The service of the tests.
pub(super) const SERVICE: Service = Service(900);

/// Registers the services of a process in the tests: a worker's hub obeys orders.
pub(super) fn register(hub: &Arc<Hub>) {
    puppet::register(hub);
}

/// What a receiver has seen.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Letter(Peer, Letter),
    Died(Peer, Vec<(u64, Outcome)>),
}

/// A receiver that passes on what it sees, and lends memory for long bodies.
struct Recorder(Mutex<mpsc::Sender<Seen>>);

/// Memory for a body, with a mark at its end that nobody writes over.
struct MarkedMemory(Vec<u8>);

impl LentMemory for MarkedMemory {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.0.len() - 1]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.len() - 1;
        &mut self.0[..bytes]
    }
}

impl Drop for MarkedMemory {
    fn drop(&mut self) {
        assert_eq!(self.0.last(), Some(&MARK));
        LENT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The byte at the end of memory that was lent.
const MARK: u8 = 0xA5;
/// The memories that are lent at present, and all that were, in this process.
static LENT: AtomicUsize = AtomicUsize::new(0);
static LENT_SO_FAR: AtomicUsize = AtomicUsize::new(0);

impl Recorder {
    fn register(hub: &Hub) -> mpsc::Receiver<Seen> {
        Self::register_as(hub, SERVICE)
    }

    fn register_as(hub: &Hub, service: Service) -> mpsc::Receiver<Seen> {
        let (sender, seen) = mpsc::channel();
        hub.register(service, Arc::new(Recorder(Mutex::new(sender))));
        seen
    }
}

impl Receiver for Recorder {
    fn received(&self, from: Peer, letter: Letter) {
        let _ = self.0.lock().send(Seen::Letter(from, letter));
    }

    fn lend(&self, _: Peer, _: &[u8], bytes: usize) -> Option<Box<dyn LentMemory>> {
        LENT.fetch_add(1, Ordering::AcqRel);
        LENT_SO_FAR.fetch_add(1, Ordering::AcqRel);
        let mut memory = vec![0; bytes];
        memory.push(MARK);
        Some(Box::new(MarkedMemory(memory)))
    }

    fn died(&self, peer: Peer, fates: &[(u64, Outcome)]) {
        let _ = self.0.lock().send(Seen::Died(peer, fates.to_vec()));
    }
}

pub(super) fn peer(process: u32, incarnation: u32) -> Peer {
    Peer {
        process: ProcessId::new(process).unwrap(),
        incarnation: Incarnation(incarnation),
    }
}

pub(super) fn letter(number: u64, body: impl Into<Body>) -> Letter {
    Letter {
        service: SERVICE,
        class: Class::Ordered,
        stream: 0,
        head: number.to_le_bytes().to_vec().into(),
        body: body.into(),
    }
}

/// The generator SplitMix64 of Steele, Lea and Flood (2014).
fn dice(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The number in the head of a letter.
fn number(letter: &Letter) -> u64 {
    u64::from_le_bytes(letter.head[..].try_into().unwrap())
}

fn next(seen: &mpsc::Receiver<Seen>) -> Seen {
    seen.recv_timeout(TIMEOUT).unwrap()
}

fn next_letter(seen: &mpsc::Receiver<Seen>) -> (Peer, Letter) {
    match next(seen) {
        Seen::Letter(from, letter) => (from, letter),
        died => panic!("{died:?}"),
    }
}

fn next_death(seen: &mpsc::Receiver<Seen>) -> (Peer, Vec<(u64, Outcome)>) {
    match next(seen) {
        Seen::Died(peer, fates) => (peer, fates),
        letter => panic!("{letter:?}"),
    }
}

/// Asserts that fates are those of the last letters up to `last`: first the ones that may have arrived, then the ones
/// that were never sent.
fn assert_fates(fates: &[(u64, Outcome)], last: u64) {
    let first = last + 1 - fates.len() as u64;
    let numbers: Vec<u64> = fates.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (first..=last).collect::<Vec<_>>());
    let unknown = fates
        .iter()
        .take_while(|(_, fate)| *fate == Outcome::Unknown)
        .count();
    assert!(fates[unknown..].iter().all(|(_, fate)| *fate == Outcome::NotSent));
}

/// A reactor on a thread of its own, which ends with this value.
struct Reactor {
    handle: tokio::runtime::Handle,
    _alive: tokio::sync::oneshot::Sender<()>,
}

impl Reactor {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let (alive, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || runtime.block_on(ended));
        Reactor {
            handle,
            _alive: alive,
        }
    }

    fn stall(&self) -> Stall {
        let (end, ended) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        self.handle.spawn(async move {
            let _ = begin.send(());
            // The error is the end of the stall.
            let _: Result<(), _> = ended.recv();
        });
        begun.recv().unwrap();
        Stall(end)
    }
}

/// Keeps the tasks of a reactor from running until it is dropped.
struct Stall(#[allow(dead_code, reason = "its drop ends the stall")] mpsc::Sender<()>);

/// Limits with a small window.
pub(super) fn narrow(frames_max: u64) -> LinkSettings {
    let settings = LinkSettings::default();
    LinkSettings {
        session: SessionSettings {
            frames_max,
            ..settings.session
        },
        ..settings
    }
}

/// A courier to a test's own end of a worker.
struct ToTest {
    notices: Mutex<mpsc::Sender<(Notice, Option<PeerEnd>)>>,
    /// The reason that the worker was killed.
    killed: OnceLock<String>,
}

impl ToTest {
    fn new() -> (Arc<Self>, mpsc::Receiver<(Notice, Option<PeerEnd>)>) {
        let (sender, notices) = mpsc::channel();
        let courier = ToTest {
            notices: Mutex::new(sender),
            killed: OnceLock::new(),
        };
        (Arc::new(courier), notices)
    }

    fn killed(&self) -> Option<&str> {
        self.killed.get().map(String::as_str)
    }
}

impl Courier for ToTest {
    fn tell(&self, notice: Notice, end: Option<PeerEnd>) {
        let _ = self.notices.lock().send((notice, end));
    }

    fn kill(&self, why: &str) {
        let _ = self.killed.set(why.to_owned());
    }
}
