//! Values that are put: into the store of this host if they are large, beside the reference if they are small.

use std::sync::Arc;

use selvedge_channels::{Encoded, Traits, Wire, dispose, encode};
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::refs::RefError;
use selvedge_objects::store::{StoreError, StoreReport};
use selvedge_objects::transfer::CopyFacts;

use crate::actor::arguments::Returned;
use crate::body::Body;
use crate::call::request::CALL_TIMEOUT;
use crate::current::NoBlocking;
use crate::failure::Failure;
use crate::lineage::{CallDigest, PutContent};
use crate::reference::Ref;
use crate::reference::content::ObjectValue;
use crate::reference::fetch::PutPlace;
use crate::reference::handle::Handle;
use crate::reference::store_letters::put_letter;
use crate::reference::stored_value::StoredValue;
use crate::reference::transit::{self, Beside};
use crate::reference::unsaid::Unsaid;
use crate::remote::argument_store::{INLINE_BYTES_MAX, KeptAs, LargeArgument};
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::store::borrowed::{Borrowed, Sealed};
use crate::store::message::FarObject;
use crate::store::options::StoreOptions;
use crate::store::placed::PlacedObject;
use crate::store::stores::StorePlace;
use crate::task::outer::OuterCall;
use crate::waiting::{Unanswered, WaitPermit, wait_for};

/// The reason that a value was not put.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The value cannot be encoded.
    #[error("the value cannot be put: {0}")]
    Unwritable(Failure),
    /// The store has no room, or no memory.
    #[error("the value was not put: {0}")]
    Store(StoreError),
    /// The owner of the value, which is the process that made the runtime, cannot hold the reference, or is dead.
    #[error("the value was not put: {0}")]
    Reference(RefError),
    /// The owner of the value cannot be told.
    #[error(
        "the value was not put: its owner, the process that made the runtime, cannot be reached: {reason}"
    )]
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// Memory was not free in time, since others fill it or it is slow to write to the folder of spilled objects.
    #[error("the value was not put: the store has made no room in {waited:?}")]
    Timeout {
        /// The time that the wait lasted.
        waited: std::time::Duration,
    },
    /// The call of the function that waited was cancelled, or its deadline has passed.
    #[error("the value was not put: the call that waited for room was cancelled: end the function")]
    Cancelled,
    /// An async remote function waited by blocking, which would stop all other async functions of its process.
    #[error(
        "the value was not put: an async remote function cannot block, as a large value needs it in a worker"
    )]
    WouldBlock,
    /// The wait is refused, because many remote functions of this process wait already.
    #[error("the value was not put: {limit} functions of this process wait already")]
    TooManyBlocked {
        /// The number of functions of a process that may wait at a time.
        limit: usize,
    },
    /// The runtime was shut down.
    #[error("the value was not put: the runtime was shut down")]
    Shutdown,
}

selvedge_channels::debug_is_report!(PutError);

impl From<StoreError> for PutError {
    fn from(error: StoreError) -> Self {
        PutError::Store(error)
    }
}

impl From<Unanswered> for PutError {
    fn from(reason: Unanswered) -> Self {
        match reason {
            Unanswered::Cancelled => PutError::Cancelled,
            Unanswered::TimedOut { waited } => PutError::Timeout { waited },
            Unanswered::Refused(NoBlocking::Async) => PutError::WouldBlock,
            Unanswered::Refused(NoBlocking::TooMany { limit }) => PutError::TooManyBlocked { limit },
        }
    }
}

impl Runtime {
    /// Sets the sizes of the object store of each host and its folder for spilled objects. Has an effect on a host until the first large
    /// value is put or fetched there.
    #[must_use]
    pub fn store(self, options: StoreOptions) -> Self {
        self.remote().stores.set_options(options);
        self
    }

    /// Puts a value where all processes of this host can read it, and returns a reference to it. The value does not change any more, and
    /// is freed with its last reference.
    ///
    /// A value of more than 16 KiB lies in the host's object store, encoded. [`Ref::fetch`] maps it there: a tensor that is
    /// fetched is a view of the store, in every process of the host, and no byte is copied. Smaller values are kept beside the
    /// reference. The owner is the process that made the runtime, so the value outlives a worker that has put it; a worker whose host
    /// has no store keeps the value itself. The bytes stay on the
    /// host where they were put; another host gets a copy in its own store when somebody fetches the value there.
    ///
    /// ```
    /// # use selvedge_core as selvedge;
    /// use selvedge::Runtime;
    /// let runtime = Runtime::new();
    /// let numbers = runtime.put(vec![1.5_f32; 1 << 20])?;
    /// assert_eq!(numbers.fetch()?.len(), 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PutError::Store`] if all of the store is in use ([`StoreError::Full`]), or objects cannot be spilled; [`PutError`] has the
    /// others.
    pub fn put<T: Wire>(&self, value: T) -> Result<Ref<T>, PutError> {
        if !self.is_open() {
            return Err(PutError::Shutdown);
        }
        self.remote()
            .put(value)
            .map(Ref::of)
            .map_err(|error| match error {
                // The store has ended meanwhile, and has nothing any more.
                PutError::Store(_) if !self.is_open() => PutError::Shutdown,
                other => other,
            })
    }

    /// The contents of this process's object store, and the hosts that have copies of its objects. The process that made the runtime has
    /// a store and owns all objects; on another host one worker has a store. In other processes this is empty.
    #[must_use]
    pub fn objects(&self) -> StoreReport {
        self.remote().stores.report()
    }
}

/// The number of stores that a value is offered to: the process that has one may end meanwhile.
const STORES_MAX: usize = 4;

impl Remote {
    fn put<T: Wire>(&self, value: T) -> Result<Arc<Handle>, PutError> {
        let owner = self.owner_of_puts()?;
        let outer = self.outer();
        let room = OuterCall::carried_bytes_max(outer.as_ref());
        let encoded = {
            let (encoded, handles) = transit::leaving_with(room, || {
                Failure::catch(|| encode(&value).map_err(Failure::of_channel))
            });
            (encoded.map_err(PutError::Unwritable)?, handles)
        };
        let (encoded, handles) = encoded;
        let outer = outer.map(|outer| {
            let name = put_name(&outer, &encoded, &handles);
            (outer, name)
        });
        let named = |put: Arc<Handle>| {
            if let Some((outer, name)) = &outer {
                outer.note(put.id(), *name);
            }
            put
        };
        let bytes = encoded.len_bytes();
        if bytes <= INLINE_BYTES_MAX {
            if let Some(owner) = owner {
                let place = (PutPlace::Letter, encoded.to_vec().into());
                return self.put_there(owner, handles, place).map(named);
            }
            drop(encoded);
            return Ok(named(
                self.put_here(ObjectValue::new(value, const { &Traits::LETTER })),
            ));
        }
        let put = self.put_stored(&encoded, &handles, StoredValue::of::<T>);
        drop(encoded);
        let has_no_store = match &put {
            Err(PutError::Store(StoreError::NoStore)) => true,
            // The store of the process that made the runtime ends with the runtime.
            Err(PutError::Store(StoreError::Gone)) => owner.is_some(),
            _ => false,
        };
        if has_no_store {
            return Ok(named(
                self.put_here(ObjectValue::new(value, const { &Traits::LETTER })),
            ));
        }
        // A panic here would leave the object to nobody.
        dispose(value);
        put.map(named)
    }

    /// Puts an encoded value into the store of this host. If the process that has the store ends meanwhile, or cannot be reached, another one may
    /// have a store.
    ///
    /// # Errors
    /// [`PutError`]. [`StoreError::Gone`]: no process has kept a store for long enough.
    fn put_stored(
        &self,
        encoded: &Encoded<'_>,
        handles: &[Arc<Handle>],
        kept: KeptAs,
    ) -> Result<Arc<Handle>, PutError> {
        for _ in 0..STORES_MAX {
            let place = wait_for(&mut self.stores.place(), CALL_TIMEOUT)?;
            let place = place.map_err(|_| PutError::Shutdown)??;
            if matches!(place, StorePlace::Nowhere) {
                return Err(StoreError::NoStore.into());
            }
            match self.put_encoded(&place, encoded, handles.to_vec(), kept) {
                Err(PutError::Store(StoreError::Gone)) => {}
                put => return put,
            }
        }
        Err(StoreError::Gone.into())
    }

    /// Puts an encoded value into a store.
    fn put_encoded(
        &self,
        place: &StorePlace,
        encoded: &Encoded<'_>,
        handles: Vec<Arc<Handle>>,
        kept: KeptAs,
    ) -> Result<Arc<Handle>, PutError> {
        let bytes = encoded.len_bytes() as u64;
        let memory = match place {
            StorePlace::Here(_) => wait_for(&mut self.stores.borrow(place, bytes), CALL_TIMEOUT)?,
            // A function that must not wait asks nothing.
            _ => WaitPermit::begin(CALL_TIMEOUT)?.wait_for(&mut self.stores.borrow(place, bytes))?,
        };
        let memory = memory.map_err(|_| PutError::Shutdown)??;
        let owner = self.owner_of_puts()?;
        let (sealed, facts) = filled(memory, encoded, self.stores.is_far())?;
        match (sealed, facts, owner) {
            (sealed, Some(facts), Some(owner)) => {
                let filed = wait_for(&mut self.stores.file(sealed, owner, facts), CALL_TIMEOUT)?;
                let far = filed.map_err(|_| PutError::Shutdown)??;
                let put = self.put_there(owner, handles, (PutPlace::Far(far), Body::EMPTY));
                if put.is_err() {
                    self.stores.abandon(&far);
                }
                put
            }
            (Sealed::Here(held), None, None) => {
                let placed = PlacedObject::here(&self.stores, held);
                Ok(self.put_here(kept(placed, handles).into_object()))
            }
            (Sealed::There(loan), None, _) => {
                let place = (PutPlace::Store(loan.object()), Body::EMPTY);
                let put = self.put_there(loan.agent(), handles, place)?;
                loan.told();
                Ok(put)
            }
            _ => Err(StoreError::Gone.into()),
        }
    }

    /// The process that owns what this one puts, if it is another one: the process that made the runtime.
    ///
    /// # Errors
    /// [`PutError::Unreachable`]: it is dead.
    fn owner_of_puts(&self) -> Result<Option<Peer>, PutError> {
        if self.me() == ProcessId::HEAD {
            return Ok(None);
        }
        let owner = self.post.peer(ProcessId::HEAD);
        owner.map(Some).ok_or_else(|| PutError::Unreachable {
            reason: format!("it is dead: {}", self.post.ends().last_end(ProcessId::HEAD)),
        })
    }

    /// Makes an object of this process.
    fn put_here(&self, value: ObjectValue) -> Arc<Handle> {
        let handle = self.references.create();
        self.fill(handle.id(), Ok(value));
        handle
    }

    /// Has another process hold an object, which lies in a store or in the letter.
    fn put_there(
        &self,
        agent: Peer,
        handles: Vec<Arc<Handle>>,
        place: (PutPlace, Body),
    ) -> Result<Arc<Handle>, PutError> {
        let (handle, kept) = self.references.keep(agent).map_err(PutError::Reference)?;
        let letter = |parcels| put_letter(parcels, place);
        let sent = self.references.send(agent, Some(kept), &handles, letter);
        sent.map(|_| handle).map_err(|error| match error {
            Unsaid::Reference(error) => PutError::Reference(error),
            Unsaid::Post(error) => PutError::Unreachable {
                reason: error.to_string(),
            },
        })
    }
}

impl Remote {
    /// Puts an argument of a submitted call into the store, if that takes it.
    pub(crate) fn put_argument(
        &self,
        argument: LargeArgument<'_>,
        outer: Option<&Arc<OuterCall>>,
    ) -> Option<Arc<Handle>> {
        // Also if the store does not take it, so that the places of what follows are those of any other run.
        let name = outer.map(|outer| put_name(outer, argument.encoded, &argument.handles));
        let LargeArgument {
            encoded,
            handles,
            kept,
        } = argument;
        let handle = self.put_stored(encoded, &handles, kept).ok()?;
        if let (Some(outer), Some(name)) = (outer, name) {
            outer.note(handle.id(), name);
        }
        Some(handle)
    }
}

/// The name of what a pure call puts: whoever reads it has the same name, too, when that call runs again.
#[cold]
fn put_name(outer: &OuterCall, encoded: &Encoded<'_>, handles: &[Arc<Handle>]) -> CallDigest {
    let (place, bytes) = (outer.next_place(), encoded.len_bytes());
    let names = outer.reference_names(handles.iter().map(|handle| handle.id()));
    if bytes <= INLINE_BYTES_MAX {
        let content = encoded.to_vec();
        return CallDigest::of_put(place, &PutContent::Bytes(&content), names.into_iter());
    }
    let mut hash = crc32fast::Hasher::new();
    encoded.visit(|content| hash.update(content));
    let (bytes, checksum) = (bytes as u64, hash.finalize());
    CallDigest::of_put(place, &PutContent::Checked { bytes, checksum }, names.into_iter())
}

/// Whether a value that has arrived is so large that it belongs into the store.
pub(crate) fn is_large(returned: &Returned) -> bool {
    matches!(returned, Returned::Passed(body, _) if body.len() > INLINE_BYTES_MAX)
}

impl Remote {
    /// Puts an encoded value into the store of this process. If that has no room, the value stays as it is.
    pub(crate) fn put_returned(&self, returned: Returned) -> Returned {
        let Returned::Passed(body, Beside(handles)) = returned else {
            return returned;
        };
        match self.stored(&body) {
            Some(object) => Returned::Kept(StoredValue::untyped(object, handles).into_object()),
            None => Returned::Passed(body, Beside(handles)),
        }
    }

    /// An encoded value in the store of this process, if it is large and there is room.
    pub(super) fn stored_here(&self, body: &Body) -> Option<PlacedObject> {
        (body.len() > INLINE_BYTES_MAX)
            .then(|| self.stored(body))
            .flatten()
    }

    fn stored(&self, body: &Body) -> Option<PlacedObject> {
        let place = self.store_place()?;
        if !matches!(place, StorePlace::Here(_)) {
            return None;
        }
        match self.fill_store(&place, body, false)? {
            (Sealed::Here(held), _) => Some(PlacedObject::here(&self.stores, held)),
            (Sealed::There(_), _) => None,
        }
    }

    /// Puts an encoded value, which another process is to own, into the store of this host.
    ///
    /// # Errors
    /// The value, if the store has no room or this process can use none.
    pub(super) fn put_far(
        &self,
        owner: Peer,
        returned: Returned,
    ) -> Result<(FarObject, Vec<Arc<Handle>>), Returned> {
        let Returned::Passed(body, Beside(handles)) = returned else {
            return Err(returned);
        };
        let filled = self
            .store_place()
            .and_then(|place| self.fill_store(&place, &body, true));
        let filed = filled.and_then(|(sealed, facts)| {
            let mut filed = self.stores.file(sealed, owner, facts?);
            WaitPermit::in_place(CALL_TIMEOUT)
                .wait_for(&mut filed)
                .ok()?
                .ok()?
                .ok()
        });
        match filed {
            Some(far) => Ok((far, handles)),
            None => Err(Returned::Passed(body, Beside(handles))),
        }
    }

    fn store_place(&self) -> Option<StorePlace> {
        let wait = WaitPermit::in_place(CALL_TIMEOUT);
        wait.wait_for(&mut self.stores.place()).ok()?.ok()?.ok()
    }

    /// Fills memory of a store with an encoded value, and seals it. `None` if there is no room.
    fn fill_store(
        &self,
        place: &StorePlace,
        body: &Body,
        is_far: bool,
    ) -> Option<(Sealed, Option<CopyFacts>)> {
        let wait = WaitPermit::in_place(CALL_TIMEOUT);
        let borrowed = wait.wait_for(&mut self.stores.borrow(place, body.len() as u64));
        let mut borrowed = borrowed.ok()?.ok()?.ok()?;
        let mut checksum = None;
        let filled = borrowed.fill(body.len(), |memory| {
            body.copy_to(memory);
            checksum = is_far.then(|| crc32fast::hash(memory));
            Ok::<(), StoreError>(())
        });
        filled.ok()?;
        Some((borrowed.seal()?, facts(body.len(), checksum)))
    }
}

fn facts(bytes: usize, checksum: Option<u32>) -> Option<CopyFacts> {
    let bytes = bytes as u64;
    checksum.map(|checksum| CopyFacts { bytes, checksum })
}

/// Fills memory with an encoded value, and seals it. What other hosts are to have gets a checksum.
fn filled(
    mut borrowed: Borrowed,
    encoded: &Encoded<'_>,
    is_far: bool,
) -> Result<(Sealed, Option<CopyFacts>), PutError> {
    let (bytes, mut checksum) = (encoded.len_bytes(), None);
    borrowed.fill(bytes, |memory| {
        let written = encoded.write_to(memory);
        checksum = is_far.then(|| crc32fast::hash(memory));
        written.map_err(|error| PutError::Unwritable(Failure::of_channel(error)))
    })?;
    let sealed = borrowed.seal().ok_or(PutError::Store(StoreError::Gone))?;
    Ok((sealed, facts(bytes, checksum)))
}
