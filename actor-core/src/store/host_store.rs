//! The agent's side of the store: decisions under a lock, and memory.
//!
//! A step of the store is made under the lock. What it orders of the disk's thread is sent there under the lock too, so that the file is
//! changed in the order of the steps. Everything else is done when the lock is let go.
#![allow(unsafe_code)] // reads memory that other processes have filled

use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::platform::extent_file::{ExtentFile, ExtentView, LentExtent};
use selvedge_channels::{SegmentError, SegmentId};
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::store::{
    Extent, LEAF_BYTES, Store, StoreAction, StoreError, StoreEvent, StoreId, StoreReport, StoreSettings,
    StoredObject,
};

use super::asker::{Given, PartRange, StoreAsker};
use super::borrowed::{Borrowed, BorrowedFrom, lend};
use super::disk::Disk;
use super::message::{LentSpot, ObjectSpot};
use super::options::StoreOptions;
use super::pin::{ObjectPin, PinFrom};
use crate::promise::{Answer, Promise, promise};
use crate::remote::threads::Threads;

/// The objects that are listed under one lock.
const LISTED_AT_ONCE: usize = 256;

/// Wakes a waker soon, on a thread that no function holds up.
pub(crate) type Wake = Arc<dyn Fn(Waker) + Send + Sync>;

struct HostState {
    store: Store,
    askers: IdMap<u64, StoreAsker>,
    requests: u64,
    is_closed: bool,
}

/// The store of this host.
pub(crate) struct HostStore {
    me: Peer,
    memory: Arc<ExtentFile>,
    state: Mutex<HostState>,
    disk: OnceLock<Disk>,
    wake: Wake,
    this: Weak<HostStore>,
}

impl HostStore {
    /// Makes the memory.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub(super) fn create(
        me: Peer,
        options: &StoreOptions,
        threads: &Threads,
        wake: Wake,
    ) -> Result<Arc<Self>, SegmentError> {
        let unit = usize::try_from(LEAF_BYTES).unwrap_or(usize::MAX);
        let capacity_bytes = options.capacity_bytes().max(LEAF_BYTES);
        let memory = ExtentFile::create(usize::try_from(capacity_bytes).unwrap_or(usize::MAX), unit)?;
        let state = HostState {
            store: Store::new(StoreSettings::with_capacity(capacity_bytes)),
            askers: IdMap::new(),
            requests: 0,
            is_closed: false,
        };
        let host = Arc::new_cyclic(|this| HostStore {
            me,
            memory,
            state: Mutex::new(state),
            disk: OnceLock::new(),
            wake,
            this: Weak::clone(this),
        });
        let disk = Disk::start(threads, Arc::downgrade(&host), options.folder());
        let _ = host.disk.set(disk.map_err(|error| SegmentError::System {
            what: "starting a thread".into(),
            len_bytes: 0,
            error,
        })?);
        Ok(host)
    }

    /// The bytes of an object that the disk's thread spills.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub(super) fn view(&self, extent: Extent, bytes: u64) -> Result<ExtentView, SegmentError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: an object on its way to the file is sealed, and its memory stays until the store hears that the way has ended
        // (STORE-2), which is after the view was dropped.
        unsafe { self.memory.view(extent.offset, length) }
    }

    /// Memory for an object that the disk's thread restores.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub(super) fn lend(&self, extent: Extent, bytes: u64, bare: &[Extent]) -> Result<LentExtent, StoreError> {
        lend(
            &self.memory,
            extent,
            usize::try_from(bytes).unwrap_or(usize::MAX),
            bare,
        )
    }

    /// Gives pages back to the system. If it does not take them, they stay, and are reserved once more when they are lent.
    pub(super) fn punch(&self, extent: Extent) {
        let length = usize::try_from(extent.len_bytes).unwrap_or(usize::MAX);
        let _ = self.memory.punch(extent.offset, length);
    }

    pub(super) fn memory(&self) -> &Arc<ExtentFile> {
        &self.memory
    }

    /// The name of the memory, by which other processes map it.
    fn memory_id(&self) -> SegmentId {
        self.memory.id().clone()
    }

    /// The contents of the store.
    pub(super) fn report(&self) -> StoreReport {
        let mut report = self.state.lock().store.totals();
        (report.objects, _) = self.listed(usize::MAX);
        report
    }

    /// The first objects, and the number of those that are left. The lock is given back between some and some, so that nobody waits long.
    pub(super) fn listed(&self, objects_max: usize) -> (Vec<StoredObject>, usize) {
        let mut objects: Vec<StoredObject> = Vec::new();
        loop {
            let wanted = LISTED_AT_ONCE.min(objects_max - objects.len());
            let last = objects.last().map(|object| object.object);
            let state = self.state.lock();
            let some = state.store.objects_behind(last, wanted);
            let count = state.store.objects_count();
            drop(state);
            let is_end = some.len() < LISTED_AT_ONCE;
            objects.extend(some);
            if is_end {
                let left = count.saturating_sub(objects.len());
                return (objects, left);
            }
        }
    }

    /// Something has happened.
    pub(super) fn event(&self, event: StoreEvent) {
        let mut state = self.state.lock();
        let actions = state.store.step(event);
        let given = self.order(&mut state, actions);
        drop(state);
        self.tell(given);
    }

    /// Asks the store for something.
    fn ask(&self, asker: StoreAsker, question: impl FnOnce(u64) -> StoreEvent) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return self.tell(vec![(asker, Given::Refused(StoreError::Gone))]);
        }
        state.requests += 1;
        let request = state.requests;
        state.askers.insert(request, asker);
        let actions = state.store.step(question(request));
        let given = self.order(&mut state, actions);
        drop(state);
        self.tell(given);
    }

    /// Sends the disk's thread its work, and returns what is to be told.
    fn order(&self, state: &mut HostState, actions: Vec<StoreAction>) -> Vec<(StoreAsker, Given)> {
        let mut given = Vec::new();
        for action in actions {
            let (request, what) = match action {
                StoreAction::Lend {
                    request,
                    object,
                    extent,
                    bare,
                } => {
                    let memory = self.memory_id();
                    let lent = LentSpot {
                        object,
                        memory,
                        extent,
                        bare,
                    };
                    (request, Given::Lent(lent))
                }
                StoreAction::Grant {
                    request,
                    object,
                    grant,
                    extent,
                    bytes,
                } => {
                    let spot = ObjectSpot {
                        object,
                        grant,
                        memory: self.memory_id(),
                        offset: extent.offset,
                        bytes,
                    };
                    (request, Given::Granted(spot))
                }
                StoreAction::Refuse { request, error } => (request, Given::Refused(error)),
                // Who waits for a part of an object is answered by the disk's thread.
                work @ (StoreAction::Spill { .. }
                | StoreAction::Restore { .. }
                | StoreAction::ReadBack { .. }
                | StoreAction::Punch(_)
                | StoreAction::Discard(_)) => {
                    if let Some(disk) = self.disk.get() {
                        disk.order(work);
                    }
                    continue;
                }
            };
            given.extend(state.askers.remove(&request).map(|asker| (asker, what)));
        }
        given
    }

    /// Tells those who have asked. Runs no user code: wakers are woken elsewhere.
    fn tell(&self, given: Vec<(StoreAsker, Given)>) {
        let Some(this) = self.this.upgrade() else { return };
        given
            .into_iter()
            .for_each(|(asker, what)| asker.tell(&this, what));
    }

    /// Keeps a promise to a thread or task of this process.
    fn keeps<T: Send>(&self, promise: Promise<T>) -> impl FnOnce(T) + Send + use<T> {
        let wake = Arc::clone(&self.wake);
        move |value| {
            if let Some(waker) = promise.keep_unwoken(value) {
                wake(waker);
            }
        }
    }

    /// The disk's thread has read a part of an object, or cannot.
    pub(super) fn read_back(&self, request: u64, part: Result<Bytes, StoreError>) {
        let asker = self.state.lock().askers.remove(&request);
        let given = part.map_or_else(Given::Refused, Given::Part);
        self.tell(asker.map(|asker| (asker, given)).into_iter().collect());
    }

    /// The bytes of an object that this process was granted.
    pub(super) fn bytes_of(&self, spot: ObjectSpot) -> Result<Bytes, StoreError> {
        let host = self.this.upgrade().ok_or(StoreError::Gone)?;
        let pin = Arc::new(ObjectPin::new(spot, PinFrom::Host(host)));
        pin.bytes().map_err(|error| StoreError::Memory {
            why: error.to_string(),
        })
    }

    /// Asks for memory for an object of this process.
    pub(super) fn borrow_here(&self, bytes: u64) -> Answer<Result<Borrowed, StoreError>> {
        let (promise, answer) = promise();
        self.borrow_then(bytes, self.keeps(promise));
        answer
    }

    /// Asks for memory for an object that this process fills piece by piece.
    pub(super) fn borrow_then(
        &self,
        bytes: u64,
        then: impl FnOnce(Result<Borrowed, StoreError>) + Send + 'static,
    ) {
        let this = Weak::clone(&self.this);
        self.borrow_for(self.me, bytes, move |lent| {
            then(lent.and_then(|lent| {
                let host = this.upgrade().ok_or(StoreError::Gone)?;
                Ok(Borrowed::new(lent, BorrowedFrom::Host(host)))
            }));
        });
    }

    /// Asks for memory for an object of another process.
    pub(super) fn borrow_for(
        &self,
        by: Peer,
        bytes: u64,
        then: impl FnOnce(Result<LentSpot, StoreError>) + Send + 'static,
    ) {
        let asker = StoreAsker::Borrower(Box::new(then));
        self.ask(asker, |request| StoreEvent::Reserve { request, by, bytes });
    }

    /// Seals an object that a process has filled. Returns what holds it; `None` if the process has not borrowed its memory.
    pub(crate) fn seal(&self, by: Peer, object: StoreId) -> Option<HeldObject> {
        let host = self.this.upgrade()?;
        let mut state = self.state.lock();
        if !state.store.is_borrowed(by, object) {
            return None;
        }
        let bytes = state.store.bytes_of(object)?;
        let actions = state.store.step(StoreEvent::Seal { by, object });
        let given = self.order(&mut state, actions);
        drop(state);
        self.tell(given);
        Some(HeldObject { host, object, bytes })
    }

    /// Seals an object of this process.
    pub(super) fn seal_here(&self, object: StoreId) -> Option<HeldObject> {
        self.seal(self.me, object)
    }

    /// The memory of an object that this process has not filled goes back.
    pub(super) fn abort_here(&self, object: StoreId) {
        let by = self.me;
        self.event(StoreEvent::Abort { by, object });
    }

    /// The last view of this process by way of a grant is gone.
    pub(super) fn close_here(&self, object: StoreId, grant: u64) {
        let by = self.me;
        self.event(StoreEvent::Close { by, object, grant });
    }

    /// The process ends: whoever waits is refused, and so is whoever asks from now on. What is in memory stays as long as somebody
    /// has a view of it.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let askers = std::mem::take(&mut state.askers);
        drop(state);
        let refused = askers
            .into_values()
            .map(|asker| (asker, Given::Refused(StoreError::Gone)));
        self.tell(refused.collect());
        if let Some(disk) = self.disk.get() {
            disk.stop();
        }
    }
}

/// The owner's hold on an object in the store: the drop says that nobody has a reference to it any more.
pub(crate) struct HeldObject {
    host: Arc<HostStore>,
    object: StoreId,
    bytes: u64,
}

impl HeldObject {
    /// The length of the object.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The name of the object in its store.
    pub(super) fn object(&self) -> StoreId {
        self.object
    }

    /// Asks for a pin, for this process.
    pub(super) fn pin_here(&self, then: impl FnOnce(Result<Arc<ObjectPin>, StoreError>) + Send + 'static) {
        let host = Arc::clone(&self.host);
        self.open_for(self.host.me, move |granted| {
            then(granted.map(|spot| Arc::new(ObjectPin::new(spot, PinFrom::Host(host)))));
        });
    }

    /// Asks for the bytes, for this process.
    pub(crate) fn open_here(&self) -> Answer<Result<Bytes, StoreError>> {
        let (promise, answer) = promise();
        self.read_here(self.host.keeps(promise));
        answer
    }

    /// Asks for the place of the bytes, for another process, which has a view from then on.
    pub(crate) fn open_for(
        &self,
        by: Peer,
        then: impl FnOnce(Result<ObjectSpot, StoreError>) + Send + 'static,
    ) {
        let object = self.object;
        self.host
            .ask(StoreAsker::Reader(Box::new(then)), |request| StoreEvent::Open {
                request,
                by,
                object,
            });
    }

    /// Says whether the object can be made again, so that it may be dropped for want of room.
    pub(crate) fn set_remakeable(&self, is_remakeable: bool) {
        let object = self.object;
        self.host.event(StoreEvent::Remakeable {
            object,
            is_remakeable,
        });
    }

    /// Asks for the bytes, for a letter to another process. `then` must not run user code.
    pub(crate) fn read_here(&self, then: impl FnOnce(Result<Bytes, StoreError>) + Send + 'static) {
        let host = Arc::clone(&self.host);
        self.open_for(self.host.me, move |granted| {
            let bytes = granted.and_then(|spot| host.bytes_of(spot));
            then(bytes);
        });
    }

    /// Asks for a part of the bytes, which lies in the object, for a letter to another host: it comes from the file if the object is
    /// spilled, and waits for no memory. `then` must not run user code.
    pub(super) fn read_part(
        &self,
        range: PartRange,
        then: impl FnOnce(Result<Bytes, StoreError>) + Send + 'static,
    ) {
        let (by, object) = (self.host.me, self.object);
        let (offset, bytes) = (range.start as u64, range.len() as u64);
        let asker = StoreAsker::PartReader(range, Box::new(then));
        self.host.ask(asker, |request| StoreEvent::Read {
            request,
            by,
            object,
            offset,
            bytes,
        });
    }
}

impl Drop for HeldObject {
    fn drop(&mut self) {
        let object = self.object;
        self.host.event(StoreEvent::Free { object });
    }
}
