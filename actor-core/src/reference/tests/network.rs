//! A network in memory: letters wait in a queue until a test lets them go.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::Wire;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::CHANNELS;
use selvedge_objects::refs::{Parcel, REFERENCES, RefId};

use super::super::content::ObjectValue;
use super::super::fetch::FETCHES;
use super::super::handle::Handle;
use super::super::letters::ReferenceService;
use super::super::references::{Helpers, References};
use super::Ref;
use crate::Failure;
use crate::errand::Errand;
use crate::failure::Waking;
use crate::hub::post::{Letter, Post, PostError};
use crate::remote_channel::service::RemoteChannels;
use crate::testing::{peer, wait_until};

/// Letters that a test sends with parcels.
const GIFTS: Service = Service(99);

/// A letter on its way, with its sender and its receiver.
type SentLetter = (Peer, Peer, Letter);

#[derive(Default)]
struct Wires {
    processes: BTreeMap<Peer, Arc<References>>,
    channels: BTreeMap<Peer, Arc<RemoteChannels>>,
    gifts: BTreeMap<Peer, Arc<Gifts>>,
    queue: VecDeque<SentLetter>,
    held: Option<(Peer, Peer)>,
    /// The process for which no more letters are taken.
    full: Option<Peer>,
    /// The member of a head's last life that has not come back.
    away: Option<Peer>,
    errands: VecDeque<Errand>,
    letters: usize,
    questions: BTreeMap<Peer, usize>,
    cuts: Vec<String>,
}

/// The references that a process was given.
#[derive(Default)]
struct Gifts {
    ready: Mutex<Vec<Arc<Handle>>>,
}

#[derive(Clone, Default)]
pub(crate) struct TestNetwork {
    state: Arc<Mutex<Wires>>,
    now: Arc<AtomicU64>,
}

pub(crate) struct TestMember {
    pub(crate) peer: Peer,
    pub(crate) table: Arc<References>,
    pub(crate) channels: Arc<RemoteChannels>,
    gifts: Arc<Gifts>,
    network: TestNetwork,
}

struct Port {
    me: Peer,
    network: TestNetwork,
}

impl Post for Port {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> Vec<Peer> {
        let state = self.network.state.lock();
        state
            .processes
            .keys()
            .copied()
            .filter(|peer| *peer != self.me)
            .collect()
    }

    fn send(&self, to: Peer, letter: Letter) -> Result<u64, PostError> {
        let mut state = self.network.state.lock();
        if !state.processes.contains_key(&to) {
            return Err(PostError::Dead(to));
        }
        if state.away == Some(to) {
            return Err(PostError::Away(to));
        }
        if state.full == Some(to) {
            let (bytes, limit) = (letter.body.len(), 0);
            return Err(PostError::Full {
                peer: to,
                bytes,
                limit,
            });
        }
        state.letters += 1;
        state.queue.push_back((self.me, to, letter));
        Ok(0)
    }

    fn cut(&self, peer: Peer, why: String) {
        let cut = format!("{peer}: {why}");
        self.network.state.lock().cuts.push(cut);
    }

    // Time passes when a test says so.
    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        false
    }
}

/// Three processes: A, B and C.
pub(crate) fn three() -> (TestNetwork, TestMember, TestMember, TestMember) {
    let network = TestNetwork::default();
    let [a, b, c] = [1, 2, 3].map(|number| network.join(number));
    (network, a, b, c)
}

impl Helpers for TestNetwork {
    fn run(&self, errand: Errand) {
        self.state.lock().errands.push_back(errand);
    }

    fn wake(&self, waker: Waker) {
        let waking = Waking::new(waker);
        self.run(Box::new(move || drop(waking)));
    }

    fn have_ended(&self) -> bool {
        false
    }
}

impl TestNetwork {
    pub(crate) fn join(&self, number: u32) -> TestMember {
        let peer = peer(number);
        let post = Port {
            me: peer,
            network: self.clone(),
        };
        let now = Arc::clone(&self.now);
        let clock = Box::new(move || Duration::from_millis(now.load(Ordering::Relaxed)));
        let post: Arc<dyn Post> = Arc::new(post);
        let table = References::new(Arc::clone(&post), Arc::new(self.clone()), clock);
        let channels = RemoteChannels::new(post, &table, Arc::new(self.clone()));
        let gifts = Arc::new(Gifts::default());
        let mut state = self.state.lock();
        state.processes.insert(peer, Arc::clone(&table));
        state.channels.insert(peer, Arc::clone(&channels));
        state.gifts.insert(peer, Arc::clone(&gifts));
        TestMember {
            peer,
            table,
            channels,
            gifts,
            network: self.clone(),
        }
    }

    /// The senders of the letters of fetches that wait, and the streams of these.
    pub(crate) fn streams(&self) -> Vec<(Peer, u64)> {
        let state = self.state.lock();
        let fetches = state
            .queue
            .iter()
            .filter(|(.., letter)| letter.service == FETCHES);
        fetches.map(|(from, _, letter)| (*from, letter.stream)).collect()
    }

    /// Runs an errand, if there is one.
    pub(crate) fn run_errand(&self) -> bool {
        let errand = self.state.lock().errands.pop_front();
        errand.map(|errand| errand()).is_some()
    }

    /// The number of letters that were sent.
    pub(crate) fn letters(&self) -> usize {
        self.state.lock().letters
    }

    /// Keeps back what goes from one process to another.
    pub(crate) fn hold(&self, from: &TestMember, to: &TestMember) {
        self.state.lock().held = Some((from.peer, to.peer));
    }

    /// Takes the last letter out of the queue.
    pub(crate) fn take_last(&self) -> SentLetter {
        self.state.lock().queue.pop_back().unwrap()
    }

    /// Puts a letter behind all others.
    pub(crate) fn put_back(&self, letter: SentLetter) {
        self.state.lock().queue.push_back(letter);
    }

    /// Takes no more letters for a process, or for all again.
    pub(crate) fn set_full(&self, to: Option<&TestMember>) {
        self.state.lock().full = to.map(|to| to.peer);
    }

    /// Has a process be away, or none any more.
    pub(crate) fn set_away(&self, process: Option<&TestMember>) {
        self.state.lock().away = process.map(|process| process.peer);
    }

    pub(crate) fn release(&self) {
        self.state.lock().held = None;
    }

    pub(crate) fn kill(&self, process: &TestMember) {
        let others: Vec<_> = {
            let mut state = self.state.lock();
            state.processes.remove(&process.peer);
            state.gifts.remove(&process.peer);
            state
                .queue
                .retain(|(from, to, _)| *from != process.peer && *to != process.peer);
            state.channels.remove(&process.peer);
            let (processes, channels) = (state.processes.values(), state.channels.values());
            processes.cloned().zip(channels.cloned()).collect()
        };
        for (references, channels) in others {
            ReferenceService(&references).died(process.peer);
            channels.died(process.peer);
        }
    }

    /// Ends a process whose death is not told yet.
    pub(crate) fn vanish(&self, process: &TestMember) {
        self.state.lock().processes.remove(&process.peer);
    }

    /// The processes that were cut off, and why.
    pub(crate) fn cuts(&self) -> Vec<String> {
        self.state.lock().cuts.clone()
    }

    /// Whether a question for a value has arrived there.
    pub(crate) fn has_question_at(&self, process: &TestMember) -> bool {
        self.questions_at(process) > 0
    }

    /// The number of messages of fetches that have arrived there.
    pub(crate) fn questions_at(&self, process: &TestMember) -> usize {
        let state = self.state.lock();
        state.questions.get(&process.peer).copied().unwrap_or_default()
    }

    /// Whether there is a letter that is not held, or an errand.
    pub(crate) fn is_moving(&self) -> bool {
        let state = self.state.lock();
        let may_go = |(from, to, _): &(Peer, Peer, Letter)| state.held != Some((*from, *to));
        state.queue.iter().any(may_go) || !state.errands.is_empty()
    }

    fn deliver_one(&self) -> bool {
        let mut state = self.state.lock();
        let held = state.held;
        let next = state
            .queue
            .iter()
            .position(|(from, to, _)| held != Some((*from, *to)));
        let Some((from, to, letter)) = next.and_then(|next| state.queue.remove(next)) else {
            return false;
        };
        let (Some(table), Some(gifts)) = (state.processes.get(&to).cloned(), state.gifts.get(&to).cloned())
        else {
            return true;
        };
        if letter.service == FETCHES {
            *state.questions.entry(to).or_default() += 1;
        }
        let channels = state.channels.get(&to).cloned();
        drop(state);
        if letter.service == CHANNELS {
            channels.unwrap().received(from, letter);
        } else if letter.service == GIFTS {
            let parcels: Vec<Parcel> = postcard::from_bytes(&letter.head).unwrap();
            assert!(table.arrived(from, parcels, move |handles| {
                gifts.ready.lock().extend(handles.unwrap())
            }));
        } else {
            assert!([REFERENCES, FETCHES].contains(&letter.service));
            ReferenceService(&table).received(from, letter);
        }
        true
    }

    /// Drops all errands: no thread can be had.
    pub(crate) fn refuse_errands(&self) {
        let errands = std::mem::take(&mut self.state.lock().errands);
        drop(errands);
    }

    /// Delivers letters until there are none that are not held. Runs no errands.
    pub(crate) fn deliver_all(&self) {
        for _ in 0..2 {
            while self.deliver_one() {}
            self.pass_time();
        }
        while self.deliver_one() {}
    }

    pub(crate) fn step(&self) -> bool {
        self.run_errand() || self.deliver_one()
    }

    /// Lets a batching time pass.
    fn pass_time(&self) {
        self.pass(Duration::from_millis(11));
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.now.fetch_add(millis, Ordering::Relaxed);
        let tables: Vec<_> = self.state.lock().processes.values().cloned().collect();
        tables.iter().for_each(|table| table.tick());
    }

    /// Delivers letters, runs errands and lets time pass until nothing happens any more.
    pub(crate) fn settle(&self) {
        loop {
            while self.step() {}
            self.pass_time();
            if !self.is_moving() {
                return;
            }
        }
    }

    /// Delivers letters and runs errands until `is_over`, which another thread may bring about.
    pub(crate) fn run_until(&self, is_over: impl Fn() -> bool) {
        wait_until("the end", || {
            let is_over = is_over();
            if !is_over {
                self.step();
            }
            is_over
        });
    }
}

impl TestMember {
    /// The references of which this process has an entry.
    pub(crate) fn ids(&self) -> Vec<RefId> {
        self.table.locked(|state, _| state.refs.ids().collect())
    }

    /// Has a value kept by `owner`.
    pub(crate) fn keep_at<T>(&self, owner: &TestMember) -> Ref<T> {
        let (handle, parcel) = self.table.keep(owner.peer).unwrap();
        self.send(owner, &[parcel]);
        Ref::of(handle)
    }

    /// Passes a reference.
    pub(crate) fn give<T>(&self, reference: &Ref<T>, to: &TestMember) {
        let handle = Arc::clone(reference.handle());
        let parcels = self.table.pass(&[handle], to.peer).unwrap();
        self.send(to, &parcels);
    }

    fn send(&self, to: &TestMember, parcels: &[Parcel]) {
        let letter = Letter::new(GIFTS, Class::Ordered, &parcels, Bytes::new());
        let port = Port {
            me: self.peer,
            network: self.network.clone(),
        };
        port.send(to.peer, letter).unwrap();
    }

    /// Creates an object here.
    pub(crate) fn put<T: Wire>(&self, value: T) -> Ref<T> {
        let handle = self.table.create();
        self.table
            .fill(handle.id(), Ok(ObjectValue::wire(value)))
            .unwrap();
        Ref::of(handle)
    }

    pub(crate) fn fill<T>(&self, reference: &Ref<T>, value: ObjectValue) {
        self.table.fill(reference.id(), Ok(value)).unwrap();
    }

    pub(crate) fn fail<T>(&self, reference: &Ref<T>, failure: Failure) {
        self.table.fill(reference.id(), Err(Arc::new(failure))).unwrap();
    }

    /// The references that were given to this process since the last time.
    pub(crate) fn taken<T>(&self) -> Vec<Ref<T>> {
        self.gifts.ready.lock().drain(..).map(Ref::of).collect()
    }
}
