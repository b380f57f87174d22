//! The references of this process, and their lock.
//!
//! No user code runs under the lock, and nothing is sent under it: a step of the count returns actions, which become
//! effects, and the thread that made the step performs them after it has let the lock go.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_cluster::session::Outcome;
use selvedge_objects::refs::{
    Action, Bundle, Event, Leak, Parcel, REFERENCES, RefError, RefId, RefSettings, RefStats, RefStatus, Refs,
};

use super::content::{Content, ObjectValue};
use super::effect::{Effect, Place};
use super::fetch::{FETCHES, FetchMessage};
use super::handle::Handle;
use super::timer::Timer;
use crate::failure::{Failure, FailureReport};
use crate::hub::post::{Letter, Post, PostError, Receiver};
use crate::promise::{Answer, Promise, promise};

/// Work that may run user code.
pub(crate) type Errand = Box<dyn FnOnce() + Send>;

/// The time since a fixed moment, which never goes backwards.
pub(crate) type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The threads of the process, as references use them.
pub(crate) trait Helpers: Send + Sync {
    /// Runs the errand soon, on a thread that may run user code.
    fn run(&self, errand: Errand);

    /// Runs the task on the thread that reads links, until it ends or the hub does. Returns false if there is no such
    /// thread: then there are no other processes.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool;
}

/// The answer to a question for a value.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The encoded value, and the references that came beside it.
    Value { bytes: Bytes, handles: Vec<Arc<Handle>> },
    /// The function that was to make the value failed.
    Failed(FailureReport),
    /// The owner could not encode the value.
    Unreadable(FailureReport),
    /// The owner has freed the value.
    Freed,
    /// The owner is dead.
    OwnerLost,
    /// The owner has not confirmed in time that it makes the value.
    CreateTimedOut,
    /// The question could not be sent.
    Unreachable(PostError),
}

/// The place of an object's content.
enum ObjectCell {
    /// No content yet, and the promises of it.
    Empty(Vec<Promise<Content>>),
    Full(Content),
}

impl Default for ObjectCell {
    fn default() -> Self {
        ObjectCell::Empty(Vec::new())
    }
}

/// What becomes of a letter once its references have come to rest: it gets them, or the reason why it is refused.
type Then = Box<dyn FnOnce(Result<Vec<Arc<Handle>>, RefError>) + Send>;

/// A letter that waits for its references. The count has a handle for each of them, unless it refuses the letter.
pub(super) struct WaitingLetter {
    ids: Vec<RefId>,
    then: Then,
}

impl WaitingLetter {
    /// Goes on with the letter.
    pub(super) fn run(self, table: &Arc<References>) {
        let handles = handles(&self.ids, table);
        (self.then)(Ok(handles));
    }

    /// Refuses the letter.
    pub(super) fn refuse(self, error: RefError) {
        (self.then)(Err(error));
    }

    /// Drops the letter, and its references.
    pub(super) fn abandon(self, table: &Arc<References>) {
        drop(handles(&self.ids, table));
    }
}

fn handles(ids: &[RefId], table: &Arc<References>) -> Vec<Arc<Handle>> {
    ids.iter().map(|id| Handle::counted(*id, table)).collect()
}

struct Question {
    id: RefId,
    asker: Promise<Fetched>,
}

pub(super) struct Table {
    refs: Refs,
    cells: BTreeMap<RefId, ObjectCell>,
    /// Questions to other processes, by their numbers.
    questions: BTreeMap<u64, Question>,
    /// The promises to tell whether an owner has listed this process.
    confirmations: BTreeMap<RefId, Vec<Promise<bool>>>,
    /// Letters that wait for their references.
    calls: BTreeMap<u64, WaitingLetter>,
    /// The promise to tell what is left at the end.
    ending: Option<Promise<Vec<Leak>>>,
    numbers: u64,
}

impl Table {
    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn effects(&mut self, actions: Vec<Action>) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(actions.len());
        for action in actions {
            match action {
                Action::Send { to, bundle } => effects.push(Effect::Send { to, bundle }),
                Action::Run { call } => effects.extend(self.calls.remove(&call).map(Effect::Run)),
                Action::RefuseCall { call, error } => {
                    let refused = self.calls.remove(&call);
                    effects.extend(refused.map(|letter| Effect::RefuseLetter(letter, error)));
                }
                Action::Abandon { call } => effects.extend(self.calls.remove(&call).map(Effect::Abandon)),
                // The peer repeats its question, and is refused again until it has dropped something.
                Action::Overloaded { .. } => {}
                Action::TimedOut(id) => {
                    effects.extend(self.confirm(id, false));
                    let askers = self.questions_of(id);
                    effects.extend(askers.map(|asker| Effect::Tell(asker, Fetched::CreateTimedOut)));
                }
                Action::Ended { leaks } => {
                    effects.extend(self.ending.take().map(|end| Effect::End(end, leaks)))
                }
                Action::Confirmed(id) => effects.extend(self.confirm(id, true)),
                Action::Lost(id) => {
                    effects.extend(self.confirm(id, false));
                    effects.extend(
                        self.questions_of(id)
                            .map(|asker| Effect::Tell(asker, Fetched::OwnerLost)),
                    );
                }
                Action::Failed(id) => {
                    effects.extend(self.settle(id, Err(Arc::new(super::content::creator_lost()))))
                }
                Action::Answer { to, question, id } => {
                    if let Some(ObjectCell::Full(content)) = self.cells.get(&id) {
                        let content = content.clone();
                        effects.push(Effect::Answer {
                            to,
                            question,
                            content,
                        });
                    }
                }
                Action::Refuse { to, question, .. } => effects.push(Effect::Refuse { to, question }),
                Action::Free(id) => match self.cells.remove(&id) {
                    Some(ObjectCell::Full(content)) => effects.push(Effect::Drop(content)),
                    Some(ObjectCell::Empty(waiting)) => effects.push(Effect::Forget(waiting)),
                    None => {}
                },
            }
        }
        effects
    }

    fn confirm(&mut self, id: RefId, is_listed: bool) -> Option<Effect> {
        let waiting = self.confirmations.remove(&id)?;
        Some(Effect::Confirm(waiting, is_listed))
    }

    fn questions_of(&mut self, id: RefId) -> impl Iterator<Item = Promise<Fetched>> + use<> {
        let lost = self.questions.extract_if(.., |_, question| question.id == id);
        let askers: Vec<_> = lost.map(|(_, question)| question.asker).collect();
        askers.into_iter()
    }

    /// Puts the content into its cell.
    fn settle(&mut self, id: RefId, content: Content) -> Option<Effect> {
        let cell = self.cells.entry(id).or_default();
        match std::mem::replace(cell, ObjectCell::Full(content.clone())) {
            ObjectCell::Empty(waiting) => Some(Effect::Settle(waiting, content)),
            // A cell is filled once: the count has refused the second time already.
            full @ ObjectCell::Full(_) => {
                *cell = full;
                None
            }
        }
    }
}

/// The references of this process: to objects of its own and to those of others.
pub(crate) struct References {
    post: Arc<dyn Post>,
    helpers: Arc<dyn Helpers>,
    clock: Clock,
    timer: Timer,
    table: Mutex<Table>,
}

impl std::fmt::Debug for References {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("References")
            .field("stats", &self.stats())
            .finish()
    }
}

impl References {
    pub(crate) fn new(post: Arc<dyn Post>, helpers: Arc<dyn Helpers>, clock: Clock) -> Arc<Self> {
        let table = Table {
            refs: Refs::new(post.me(), RefSettings::default()),
            cells: BTreeMap::new(),
            questions: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            calls: BTreeMap::new(),
            ending: None,
            numbers: 0,
        };
        Arc::new(References {
            post,
            helpers,
            clock,
            timer: Timer::default(),
            table: Mutex::new(table),
        })
    }

    pub(crate) fn me(&self) -> Peer {
        self.post.me()
    }

    pub(super) fn post(&self) -> &dyn Post {
        self.post.as_ref()
    }

    pub(super) fn timer(&self) -> &Timer {
        &self.timer
    }

    pub(super) fn helpers(&self) -> &dyn Helpers {
        self.helpers.as_ref()
    }

    /// Does something under the lock.
    fn locked<R>(self: &Arc<Self>, work: impl FnOnce(&mut Table, Duration) -> R) -> R {
        let now = self.now();
        let mut table = self.table.lock();
        let result = work(&mut table, now);
        // Under the lock, so that the timer has the latest deadline.
        self.timer.set(table.refs.deadline(), self);
        result
    }

    /// Takes one step under the lock, and performs its effects without it.
    fn step(self: &Arc<Self>, place: Place, step: impl FnOnce(&mut Table, Duration) -> Vec<Effect>) {
        let effects = self.locked(step);
        effects.into_iter().for_each(|effect| effect.perform(self, place));
    }

    fn event(self: &Arc<Self>, place: Place, event: Event) {
        self.step(place, |table, now| {
            let actions = table.refs.step(now, event);
            table.effects(actions)
        });
    }

    /// Creates an object here that has no content yet.
    pub(crate) fn create(self: &Arc<Self>) -> Arc<Handle> {
        let id = self.table.lock().refs.create();
        Handle::counted(id, self)
    }

    /// Names the object that a call to `owner` will make. The parcel goes along with the call.
    ///
    /// # Errors
    /// [`RefError`].
    pub(crate) fn keep(self: &Arc<Self>, owner: Peer) -> Result<(Arc<Handle>, Parcel), RefError> {
        let parcel = self.locked(|table, now| table.refs.keep(now, owner))?;
        Ok((Handle::counted(parcel.id(), self), parcel))
    }

    /// Passes references to another process. The parcels go along with one ordered letter, in this order.
    ///
    /// # Errors
    /// [`RefError`]; nothing is passed then.
    pub(crate) fn pass(self: &Arc<Self>, handles: &[Arc<Handle>], to: Peer) -> Result<Vec<Parcel>, RefError> {
        let mut table = self.table.lock();
        let mut parcels = Vec::with_capacity(handles.len());
        for handle in handles {
            match table.refs.pass(handle.id(), to) {
                Ok(parcel) => parcels.push(parcel),
                Err(error) => {
                    drop(table);
                    self.not_sent(to, &parcels);
                    return Err(error);
                }
            }
        }
        Ok(parcels)
    }

    /// A letter with these parcels was not sent.
    pub(crate) fn not_sent(self: &Arc<Self>, to: Peer, parcels: &[Parcel]) {
        for parcel in parcels {
            let parcel = *parcel;
            self.event(Place::Caller, Event::NotSent { to, parcel });
        }
    }

    /// A letter has arrived with these parcels. Once its references are confirmed or lost, `then` gets a handle for each
    /// reference that was passed, or the reason why the letter is refused; it must not block and must not run user code.
    /// If the sender dies first, `then` is dropped. Returns false for parcels that no lawful process sends, and does
    /// nothing then.
    pub(crate) fn arrived(
        self: &Arc<Self>,
        from: Peer,
        parcels: Vec<Parcel>,
        then: impl FnOnce(Result<Vec<Arc<Handle>>, RefError>) + Send + 'static,
    ) -> bool {
        let is_lawful = |parcel: &Parcel| match parcel {
            Parcel::Keep { id } => id.owner == self.me() && id.creator == from,
            Parcel::Given { id, .. } => id.owner == from,
            Parcel::Lent { .. } => true,
        };
        if !parcels.iter().all(is_lawful) {
            self.post
                .cut(from, "it passes a reference that is not its own".to_owned());
            return false;
        }
        let passed = parcels
            .iter()
            .filter(|parcel| !matches!(parcel, Parcel::Keep { .. }));
        let ids = passed.map(Parcel::id).collect();
        let letter = WaitingLetter {
            ids,
            then: Box::new(then),
        };
        self.step(Place::Link, |table, now| {
            let call = table.next_number();
            table.calls.insert(call, letter);
            let actions = table.refs.step(now, Event::Arrived { from, call, parcels });
            table.effects(actions)
        });
        true
    }

    /// Ends all references: handles are dropped, and nothing is taken or passed any more. The answer, which comes after
    /// `grace` at the latest, lists what is left.
    pub(crate) fn end(self: &Arc<Self>, grace: Duration) -> Answer<Vec<Leak>> {
        let (ended, answer) = promise();
        self.step(Place::Caller, |table, now| {
            table.ending = Some(ended);
            let deadline = now + grace;
            let actions = table.refs.step(now, Event::End { deadline });
            table.effects(actions)
        });
        answer
    }

    /// Puts the content of an object of this process into place.
    ///
    /// # Errors
    /// [`RefError::Freed`], [`RefError::AlreadySet`].
    pub(crate) fn fill(self: &Arc<Self>, id: RefId, content: Content) -> Result<(), RefError> {
        let mut refused = Ok(());
        self.step(Place::Caller, |table, _| match table.refs.fill(id) {
            Ok(actions) => {
                let mut effects: Vec<_> = table.settle(id, content).into_iter().collect();
                effects.extend(table.effects(actions));
                effects
            }
            Err(error) => {
                refused = Err(error);
                vec![Effect::Drop(content)]
            }
        });
        refused
    }

    pub(super) fn dropped(self: &Arc<Self>, id: RefId) {
        self.event(Place::Caller, Event::Dropped(id));
    }

    /// The content of an object of this process, as soon as there is one.
    pub(super) fn content(&self, id: RefId) -> Answer<Content> {
        let (asker, answer) = promise();
        let mut table = self.table.lock();
        match table.cells.entry(id).or_default() {
            ObjectCell::Empty(waiting) => waiting.push(asker),
            ObjectCell::Full(content) => {
                let content = content.clone();
                drop(table);
                asker.keep(content);
            }
        }
        answer
    }

    /// The content of an object of this process, if there is one.
    pub(super) fn content_now(&self, id: RefId) -> Option<Content> {
        match self.table.lock().cells.get(&id)? {
            ObjectCell::Empty(_) => None,
            ObjectCell::Full(content) => Some(content.clone()),
        }
    }

    /// Asks the owner for the value of an object.
    pub(super) fn ask(self: &Arc<Self>, id: RefId) -> Answer<Fetched> {
        let (asker, answer) = promise();
        let mut table = self.table.lock();
        let refused = match table.refs.check(id) {
            Ok(()) => None,
            Err(RefError::CreateTimedOut(_)) => Some(Fetched::CreateTimedOut),
            Err(_) => Some(Fetched::OwnerLost),
        };
        if let Some(refused) = refused {
            drop(table);
            asker.keep(refused);
            return answer;
        }
        let question = table.next_number();
        table.questions.insert(question, Question { id, asker });
        drop(table);
        if let Err(error) = self.say(id.owner, &FetchMessage::Ask { question, id }, Bytes::new()) {
            self.answered(question, Fetched::Unreachable(error));
        }
        answer
    }

    /// Whether the owner has listed this process, as soon as that is known; false if the object is lost.
    pub(super) fn confirmation(&self, id: RefId) -> Answer<bool> {
        let (asker, answer) = promise();
        let mut table = self.table.lock();
        let known = match table.refs.status(id) {
            Some(RefStatus::Pending) => {
                table.confirmations.entry(id).or_default().push(asker);
                return answer;
            }
            status => status == Some(RefStatus::Confirmed),
        };
        drop(table);
        asker.keep(known);
        answer
    }

    fn answered(&self, question: u64, fetched: Fetched) {
        let asked = self.table.lock().questions.remove(&question);
        match asked {
            Some(asked) => asked.asker.keep(fetched),
            None => drop(fetched),
        }
    }

    /// Sends a message of a fetch.
    pub(super) fn say(&self, to: Peer, message: &FetchMessage, body: Bytes) -> Result<(), PostError> {
        let letter = Letter {
            service: FETCHES,
            class: Class::Ordered,
            head: encoded(message),
            body,
        };
        self.post.send(to, letter).map(drop)
    }

    /// The time by the clock of the references.
    pub(super) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Performs what is due, such as repeated questions.
    pub(super) fn tick(self: &Arc<Self>) {
        self.event(Place::Link, Event::Tick);
    }

    /// Counts of what this process holds and waits for.
    pub(crate) fn stats(&self) -> RefStats {
        self.table.lock().refs.stats()
    }

    /// The references that this process has an entry of, as owner or as user.
    pub(crate) fn ids(&self) -> Vec<RefId> {
        self.table.lock().refs.ids().collect()
    }

    fn fetch_message(self: &Arc<Self>, from: Peer, message: FetchMessage, body: Bytes) {
        match message {
            FetchMessage::Ask { question, id } => {
                let event = Event::Fetch { from, question, id };
                self.event(Place::Link, event);
            }
            FetchMessage::Value { question, parcels } => {
                let table = Arc::clone(self);
                self.arrived(from, parcels, move |handles| {
                    let fetched = match handles {
                        Ok(handles) => Fetched::Value { bytes: body, handles },
                        Err(error) => Fetched::Unreadable(Failure::from_error(error).into_report()),
                    };
                    table.answered(question, fetched);
                });
            }
            FetchMessage::Failed { question, report } => self.answered(question, Fetched::Failed(report)),
            FetchMessage::Unreadable { question, report } => {
                self.answered(question, Fetched::Unreadable(report));
            }
            FetchMessage::Freed { question } => self.answered(question, Fetched::Freed),
        }
    }
}

/// The receiver of letters about references and fetches.
#[derive(Debug)]
pub(crate) struct ReferenceService(pub(crate) Arc<References>);

impl Receiver for ReferenceService {
    fn received(&self, from: Peer, letter: Letter) {
        let head = &letter.head;
        let read = if letter.service == REFERENCES {
            let bundle = postcard::from_bytes::<Bundle>(head);
            bundle.map(|bundle| self.0.event(Place::Link, Event::Heard { from, bundle }))
        } else {
            postcard::from_bytes(head).map(|message| self.0.fetch_message(from, message, letter.body))
        };
        if let Err(error) = read {
            let why = format!("it sent a letter about references that cannot be read: {error}");
            self.0.post.cut(from, why);
        }
    }

    fn died(&self, peer: Peer, _: &[(u64, Outcome)]) {
        // Whatever was passed to the peer is struck off in one step, sent or not.
        self.0.event(Place::Link, Event::Dead(peer));
    }
}

/// Encodes a head. These types cannot fail to be encoded.
pub(super) fn encoded<T: serde::Serialize>(head: &T) -> Bytes {
    postcard::to_allocvec(head).unwrap_or_default().into()
}

/// An object with its value.
pub(crate) fn filled(table: &Arc<References>, value: ObjectValue) -> Result<Arc<Handle>, RefError> {
    let handle = table.create();
    table.fill(handle.id(), Ok(value))?;
    Ok(handle)
}
