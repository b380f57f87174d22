//! The references of this process, and their lock.
//!
//! No user code runs under the lock, and nothing is sent under it: a step of the count returns actions, which become
//! effects, and the thread that made the step performs them after it has let the lock go.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Action, Event, Leak, ListedRef, Parcel, RefError, RefId, RefStats};
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::CopyName;

use super::content::{Content, LostCopy, ObjectValue};
use super::effect::{Effect, EffectThread};
use super::fetch::{FetchMessage, Fetched};
use super::handle::{Handle, ReferenceTable};
use super::letters::perform;
use super::open_questions::Askers;
use super::stored_value::StoredValue;
use super::table::{ObjectCell, ReferenceState};
use super::timer::ReferenceTimer;
use super::unsaid::Unsaid;
use super::waiting_letter::{WaitingLetter, handles};
use crate::body::Body;
use crate::errand::Errand;
use crate::failure::Failure;
use crate::hub::delivering::delivering;
use crate::hub::post::{Letter, Post};
use crate::promise::{Answer, Promise, promise};
use crate::store::message::ObjectSpot;
use crate::store::stores::Stores;

/// Told of an object of this process whose last copy is lost, with the value that it had.
pub(crate) type TellLost = Box<dyn Fn(RefId, ObjectValue, LostCopy) + Send + Sync>;

/// The time since a fixed moment, which never goes backwards.
pub(crate) type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Threads for user code, and for wakers.
pub(crate) trait Helpers: Send + Sync {
    /// Runs the errand soon, on a thread that may run user code.
    fn run(&self, errand: Errand);

    /// Wakes a waker soon, on a thread that no function holds up.
    fn wake(&self, waker: Waker);

    /// Whether all further errands are refused, because the process ends.
    fn have_ended(&self) -> bool;
}

/// The references of this process: to objects of its own and to those of others.
pub(crate) struct References {
    pub(super) post: Arc<dyn Post>,
    helpers: Arc<dyn Helpers>,
    clock: Clock,
    timer: ReferenceTimer,
    pub(super) table: Mutex<ReferenceState>,
    pub(super) above: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// Told of each object of this process that is freed.
    freed: OnceLock<Box<dyn Fn(RefId) + Send + Sync>>,
    /// Told of each object of this process whose value is lost.
    lost: OnceLock<TellLost>,
    stores: OnceLock<Arc<Stores>>,
}

/// An object of this process, by its name.
pub(crate) enum Object {
    Content(Content),
    /// The object has no content yet, or its creator's call is still to come.
    Empty,
    /// An object to which nobody holds a reference.
    Unknown,
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
        let table = ReferenceState::new(post.me());
        Arc::new(References {
            post,
            helpers,
            clock,
            timer: ReferenceTimer::default(),
            table: Mutex::new(table),
            above: OnceLock::new(),
            freed: OnceLock::new(),
            lost: OnceLock::new(),
            stores: OnceLock::new(),
        })
    }

    pub(super) fn post(&self) -> &dyn Post {
        self.post.as_ref()
    }

    /// The table as handles see it.
    pub(super) fn as_table(self: &Arc<Self>) -> Arc<dyn ReferenceTable> {
        Arc::clone(self) as Arc<dyn ReferenceTable>
    }

    pub(super) fn timer(&self) -> &ReferenceTimer {
        &self.timer
    }

    pub(super) fn helpers(&self) -> &dyn Helpers {
        self.helpers.as_ref()
    }

    /// Does something under the lock.
    pub(super) fn locked<R>(self: &Arc<Self>, work: impl FnOnce(&mut ReferenceState, Duration) -> R) -> R {
        let now = self.now();
        let mut table = self.table.lock();
        let result = work(&mut table, now);
        // Under the lock, so that the timer has the latest deadline.
        self.timer.set(table.refs.deadline(), self);
        result
    }

    /// Takes one step under the lock, and performs its effects without it.
    pub(super) fn step(
        self: &Arc<Self>,
        place: EffectThread,
        step: impl FnOnce(&mut ReferenceState, Duration) -> Vec<Effect>,
    ) {
        let effects = self.locked(step);
        effects
            .into_iter()
            .for_each(|effect| perform(self, effect, place));
    }

    pub(super) fn event(self: &Arc<Self>, place: EffectThread, event: Event) {
        self.step(place, |table, now| {
            let actions = table.refs.step(now, event);
            table.effects(actions)
        });
    }

    /// Creates an object here that has no content yet.
    pub(crate) fn create(self: &Arc<Self>) -> Arc<Handle> {
        let id = self.table.lock().refs.create();
        Handle::counted(id, self.as_table())
    }

    /// Names the object that a call to `owner` will make. The parcel goes along with the call.
    ///
    /// # Errors
    /// [`RefError`].
    pub(crate) fn keep(self: &Arc<Self>, owner: Peer) -> Result<(Arc<Handle>, Parcel), RefError> {
        let parcel = self.locked(|table, now| table.refs.keep(now, owner))?;
        Ok((Handle::counted(parcel.id(), self.as_table()), parcel))
    }

    /// Whether a reference is one of another runtime, which gives the same names to other objects.
    pub(crate) fn is_foreign(self: &Arc<Self>, handle: &Handle) -> bool {
        let this = Arc::as_ptr(self).cast::<()>();
        let of = handle.table().map(|table| Arc::as_ptr(table).cast::<()>());
        of.is_some_and(|of| of != this)
    }

    /// Passes references to another process. The parcels go along with one ordered letter, in this order.
    ///
    /// # Errors
    /// [`RefError`]; nothing is passed then. [`RefError::Foreign`] for a reference of another runtime.
    pub(crate) fn pass(self: &Arc<Self>, handles: &[Arc<Handle>], to: Peer) -> Result<Vec<Parcel>, RefError> {
        if handles.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(foreign) = handles.iter().find(|handle| self.is_foreign(handle)) {
            return Err(RefError::Foreign(foreign.id()));
        }
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

    /// Sends a letter, which gets the parcels of these references, in this order and behind `kept`: the one of the object that
    /// the letter asks for.
    ///
    /// # Errors
    /// [`Unsaid`]; nothing is passed and nothing is kept then.
    pub(crate) fn send(
        self: &Arc<Self>,
        to: Peer,
        kept: Option<Parcel>,
        handles: &[Arc<Handle>],
        letter: impl FnOnce(Vec<Parcel>) -> Letter,
    ) -> Result<u64, Unsaid> {
        let mut parcels = Vec::from_iter(kept);
        let passed = self.pass(handles, to).map_err(Unsaid::Reference);
        let sent = passed.and_then(|passed| {
            parcels.extend(passed);
            let sent = self.post.send(to, letter(parcels.clone()));
            sent.map_err(Unsaid::Post)
        });
        if sent.is_err() {
            self.not_sent(to, &parcels);
        }
        sent
    }

    /// A letter with these parcels was not sent.
    fn not_sent(self: &Arc<Self>, to: Peer, parcels: &[Parcel]) {
        for parcel in parcels {
            let parcel = *parcel;
            self.event(EffectThread::here(), Event::NotSent { to, parcel });
        }
    }

    /// Takes back parcels that their receiver has never seen.
    pub(super) fn take_back(self: &Arc<Self>, to: Peer, parcels: &[Parcel]) {
        for parcel in parcels {
            let parcel = *parcel;
            self.event(EffectThread::Link, Event::NotSent { to, parcel });
        }
    }

    /// Takes over parcels that did not come in a letter. The handles are good at once: a parent holds its reference until
    /// the owner has listed this process.
    ///
    /// # Errors
    /// [`RefError`]; the parcels are settled all the same. [`RefError::Dead`] if the sender is dead, whose parcels are
    /// settled by its death, or sends what no lawful process does.
    pub(crate) fn take_over(
        self: &Arc<Self>,
        from: Peer,
        parcels: Vec<Parcel>,
    ) -> Result<Vec<Arc<Handle>>, RefError> {
        let is_call = |parcel: &Parcel| matches!(parcel, Parcel::Keep { .. });
        if parcels.iter().any(is_call) || !self.are_lawful(from, &parcels) {
            return Err(RefError::Dead(from));
        }
        let ids: Vec<_> = parcels.iter().map(Parcel::id).collect();
        let mut refused = None;
        self.step(EffectThread::Link, |table, now| {
            if table.refs.is_buried(from) {
                refused = Some(RefError::Dead(from));
                return Vec::new();
            }
            let call = table.next_number();
            table.calls.insert(call, WaitingLetter::of_nobody());
            let actions = table.refs.step(now, Event::Arrived { from, call, parcels });
            refused = actions.iter().find_map(|action| match action {
                Action::RefuseCall { call: refused, error } if *refused == call => Some(*error),
                _ => None,
            });
            table.effects(actions)
        });
        match refused {
            Some(error) => Err(error),
            None => Ok(handles(&ids, &self.as_table())),
        }
    }

    /// Whether a process may send these parcels. If not, it is cut off.
    fn are_lawful(&self, from: Peer, parcels: &[Parcel]) -> bool {
        let is_lawful = |parcel: &Parcel| match parcel {
            Parcel::Keep { id } => id.owner == self.me() && id.creator == from,
            Parcel::Given { id, .. } => id.owner == from,
            Parcel::Lent { .. } => true,
        };
        let are_lawful = parcels.iter().all(is_lawful);
        if !are_lawful {
            self.post
                .cut(from, "it passes a reference that is not its own".to_owned());
        }
        are_lawful
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
        if !self.are_lawful(from, &parcels) {
            return false;
        }
        if parcels.is_empty() {
            self.arrived_without(from, || then(Ok(Vec::new())));
            return true;
        }
        let passed = parcels
            .iter()
            .filter(|parcel| !matches!(parcel, Parcel::Keep { .. }));
        let ids = passed.map(Parcel::id).collect();
        let letter = WaitingLetter {
            ids,
            then: Box::new(then),
        };
        self.step(EffectThread::Link, |table, now| {
            let call = table.next_number();
            table.calls.insert(call, letter);
            let actions = table.refs.step(now, Event::Arrived { from, call, parcels });
            table.effects(actions)
        });
        true
    }

    /// A letter without parcels has arrived: calls `then`, unless the sender is dead. Nothing changes, so no moment and no timer is
    /// needed.
    fn arrived_without(&self, from: Peer, then: impl FnOnce()) {
        if !self.table.lock().refs.is_buried(from) {
            then();
        }
    }

    /// A letter for a service has arrived with these parcels: like [`arrived`](Self::arrived), but `then` gets the service, and is dropped
    /// if that has ended meanwhile.
    pub(crate) fn arrived_at<S: Send + Sync + 'static>(
        self: &Arc<Self>,
        (service, weak): (&S, &Weak<S>),
        from: Peer,
        parcels: Vec<Parcel>,
        then: impl FnOnce(&S, Result<Vec<Arc<Handle>>, RefError>) + Send + 'static,
    ) -> bool {
        if parcels.is_empty() {
            self.arrived_without(from, || then(service, Ok(Vec::new())));
            return true;
        }
        let weak = Weak::clone(weak);
        self.arrived(from, parcels, move |handles| {
            if let Some(service) = weak.upgrade() {
                then(&service, handles);
            }
        })
    }

    /// Puts the content of an object of this process into place.
    ///
    /// # Errors
    /// [`RefError::Freed`], [`RefError::AlreadySet`].
    pub(crate) fn fill(self: &Arc<Self>, id: RefId, content: Content) -> Result<(), RefError> {
        let mut refused = Ok(());
        if let Some(stored) = content.as_ref().ok().and_then(|value| value.get::<StoredValue>()) {
            stored.object().belongs_to(id);
        }
        self.step(EffectThread::here(), |table, _| match table.refs.fill(id) {
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

    /// Sets the store in which objects may lie. Later calls have no effect.
    pub(crate) fn set_stores(&self, stores: &Arc<Stores>) {
        let _ = self.stores.set(Arc::clone(stores));
    }

    /// The store in which objects may lie.
    pub(super) fn stores(&self) -> Option<&Arc<Stores>> {
        self.stores.get()
    }

    /// Another process has not been told of its view of a stored object.
    pub(super) fn release(&self, to: Peer, spot: &ObjectSpot) {
        if let Some(stores) = self.stores() {
            stores.release(to, spot);
        }
    }

    /// Sets the service that handles find by [`Handle::above`]. Later calls have no effect.
    pub(crate) fn set_above(&self, above: Weak<dyn Any + Send + Sync>) {
        let _ = self.above.set(above);
    }

    /// Does something soon, on a thread that may run user code.
    pub(crate) fn do_soon(&self, errand: Errand) {
        self.helpers.run(errand);
    }

    /// Sets who is told of each object of this process that is freed; it must not run user code. Later calls have no effect.
    pub(crate) fn on_freed(&self, tell: Box<dyn Fn(RefId) + Send + Sync>) {
        let _ = self.freed.set(tell);
    }

    /// Sets who is told of each object of this process whose value is lost, and sees to it that there is another one, or a failure; it
    /// must not run user code. Later calls have no effect.
    pub(crate) fn on_lost(&self, tell: TellLost) {
        let _ = self.lost.set(tell);
    }

    /// The last copy of an object of this process is lost. `value` is the one that it was a copy of: if the object has another one by
    /// now, or none, the notice is stale and has no effect. Whoever waits for the value gets the one that is made in its place, or the
    /// reason why there is none.
    pub(crate) fn lost(self: &Arc<Self>, id: RefId, value: &ObjectValue, copy: LostCopy) {
        let lost = self.locked(|table, _| {
            let cell = table.cells.get_mut(&id)?;
            let is_it = matches!(cell, ObjectCell::Full(Ok(known)) if known.is_same(value));
            (is_it && table.refs.empty(id)).then(|| std::mem::take(cell))
        });
        let Some(ObjectCell::Full(Ok(lost))) = lost else {
            return;
        };
        if let Some(tell) = self.lost.get() {
            tell(id, lost, copy);
        }
    }

    /// No host has a copy of the value of this name any more. If the object has another value by now, this has no effect.
    pub(crate) fn lost_everywhere(self: &Arc<Self>, id: RefId, name: CopyName) {
        if let Object::Content(Ok(value)) = self.object(id)
            && let Some(stored) = value.get::<StoredValue>()
            && stored.object().is_named(name)
        {
            let why = StoreError::Lost.to_string();
            let is_dropped = false;
            self.lost(id, &value, LostCopy { why, is_dropped });
        }
    }

    /// A handle on an object of this process, also if it was freed: it is there again then, without a value. Returns whether it was.
    pub(crate) fn hold_again(self: &Arc<Self>, id: RefId) -> (Arc<Handle>, bool) {
        let (was_freed, error) = self.locked(|table, _| {
            let was_freed = table.refs.hold_again(id);
            // The error that says so, if it came home meanwhile.
            let error = table.cells.get_mut(&id).filter(|_| was_freed);
            (was_freed, error.map(std::mem::take))
        });
        drop(error);
        (Handle::counted(id, self.as_table()), was_freed)
    }

    /// Tells the store whether an object of this process can be made again, if it lies there.
    pub(crate) fn set_remakeable(&self, id: RefId, is_remakeable: bool) {
        if let Object::Content(Ok(value)) = self.object(id)
            && let Some(stored) = value.get::<StoredValue>()
        {
            stored.object().set_remakeable(is_remakeable);
        }
    }

    /// Whether somebody holds an object of this process.
    pub(crate) fn is_held(&self, id: RefId) -> bool {
        self.table.lock().refs.status(id).is_some()
    }

    pub(super) fn tell_freed(&self, id: RefId) {
        if let Some(tell) = self.freed.get() {
            tell(id);
        }
    }

    /// An object of this process.
    pub(crate) fn object(&self, id: RefId) -> Object {
        let table = self.table.lock();
        match table.cells.get(&id) {
            Some(ObjectCell::Full(content)) => Object::Content(content.clone()),
            _ if table.refs.status(id).is_some() => Object::Empty,
            _ => Object::Unknown,
        }
    }

    /// Whether an object of this process has its content.
    pub(super) fn is_made(&self, id: RefId) -> bool {
        matches!(self.table.lock().cells.get(&id), Some(ObjectCell::Full(_)))
    }

    /// Whether the object of a reference that is held here may be asked for something.
    ///
    /// # Errors
    /// [`RefError`].
    pub(crate) fn check(&self, id: RefId) -> Result<(), RefError> {
        self.table.lock().refs.check(id)
    }

    /// The time by the clock of the references.
    pub(super) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Performs what is due, such as repeated questions.
    pub(crate) fn tick(self: &Arc<Self>) {
        delivering(|| self.event(EffectThread::Link, Event::Tick));
    }

    /// Counts of what this process holds and waits for.
    pub(crate) fn stats(&self) -> RefStats {
        self.table.lock().refs.stats()
    }

    /// The first references that this process owns or holds, and the number of those that are left.
    pub(crate) fn listed(&self, references_max: usize) -> (Vec<ListedRef>, usize) {
        let table = self.table.lock();
        let listed: Vec<_> = table.refs.listed().take(references_max).collect();
        let left = table.refs.ids().count() - listed.len();
        (listed, left)
    }

    /// Whether [`stop`](Self::stop) was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.table.lock().is_stopped
    }

    /// Lets go of all references, of which handles may still be there: the process ends. The answer comes once no other process holds
    /// a reference to an object of this one and all have answered, or after `grace`: it lists what is left then.
    pub(crate) fn end(self: &Arc<Self>, grace: Duration) -> Answer<Vec<Leak>> {
        let (ended, answer) = promise();
        self.step(EffectThread::here(), |table, now| {
            table.ending = Some(ended);
            let deadline = now.saturating_add(grace);
            let actions = table.refs.step(now, Event::End { deadline });
            table.effects(actions)
        });
        answer
    }

    /// Ends all waits: the process ends. Promises are broken outside of the lock.
    pub(crate) fn stop(self: &Arc<Self>) {
        let left = self.locked(|table, _| {
            table.is_stopped = true;
            let questions = std::mem::take(&mut table.questions);
            (
                questions,
                std::mem::take(&mut table.confirmations),
                table.waiting(),
            )
        });
        drop(left);
    }

    /// Has `owner` hold an object without a value.
    ///
    /// # Errors
    /// The reason that it does not.
    pub(crate) fn unset(self: &Arc<Self>, owner: Peer) -> Result<Arc<Handle>, Failure> {
        let (handle, parcel) = self.keep(owner).map_err(Failure::from_error)?;
        let letter = |_| FetchMessage::Create { parcel }.letter(Body::EMPTY);
        let sent = self.send(owner, Some(parcel), &[], letter);
        sent.map(|_| handle).map_err(Unsaid::into_failure)
    }

    /// Keeps a promise. Wakers are user code, and another thread wakes them: this one may read links.
    pub(crate) fn keep_promise<A>(&self, promise: Promise<A>, value: A) {
        if let Some(waker) = promise.keep_unwoken(value) {
            self.helpers.wake(waker);
        }
    }

    /// Ends a question, if it was asked of this process.
    pub(super) fn answered(&self, owner: Peer, question: u64, fetched: Fetched) {
        let askers = self.table.lock().questions.end(owner, question);
        self.tell(askers, fetched);
    }

    /// Gives each of those who have asked the answer.
    pub(super) fn tell(&self, askers: Askers, fetched: Fetched) {
        let answers = std::iter::repeat_n(fetched, askers.len());
        for (asker, answer) in askers.into_iter().zip(answers) {
            self.keep_promise(asker, answer);
        }
    }
}
