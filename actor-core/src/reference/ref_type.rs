//! `Ref`, which users hold.

use std::any::type_name;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use selvedge_channels::{Traits, Wire};
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;
use selvedge_objects::store::StoreError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::content::{AnyShared, Content, ObjectValue, decoded};
use super::error::FetchError;
use super::fetch::{Fetched, Wish};
use super::handle::{Handle, ReferenceTable};
use super::name::NamedRef;
use super::set_value::SetValue;
use super::stored_value::StoredValue;
use super::transit;
use crate::call::request::CALL_TIMEOUT;
use crate::current::NoBlocking;
use crate::deadline::TimeLimit;
use crate::promise::{Answer, NoAnswer};
use crate::waiting::{Unanswered, WaitPermit, wait_for};

/// A reference to a value of type `T` that lives in one process, its owner: an `Arc<T>` across processes.
///
/// Clones are cheap and send nothing. A reference travels in the arguments and results of remote functions, along the edges
/// of graphs, and in the values that other references refer to; elsewhere it does not serialise. The owner drops the value when no process holds a
/// reference any more. A value never changes.
pub struct Ref<T> {
    pub(super) handle: Arc<Handle>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Ref::of(Arc::clone(&self.handle))
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref<{}>({})", type_name::<T>(), self.handle.id())
    }
}

impl<T> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        transit::serialize(&self.handle, serializer)
    }
}

impl<'de, T> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        transit::deserialize(deserializer).map(Ref::of)
    }
}

impl<T> Ref<T> {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Ref {
            handle,
            of: PhantomData,
        }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The reference's name.
    #[must_use]
    pub fn id(&self) -> RefId {
        self.handle.id()
    }

    /// The reference, as errors name it.
    pub(crate) fn named(&self) -> NamedRef {
        NamedRef::of::<T>(self.id())
    }

    /// The process that holds the value.
    #[must_use]
    pub fn owner(&self) -> Peer {
        self.id().owner
    }

    /// Drops the reference, and tells the owner at once if it was the last one here that is confirmed. A mere drop waits up to
    /// 10 ms for others, to share a frame with them. Clones are references of their own, and hold the value still.
    pub fn release(self) {
        let (id, table) = (self.id(), self.handle.table().map(Arc::clone));
        drop(self);
        if let Some(table) = table {
            table.flush(id);
        }
    }

    /// Waits until the owner has listed this process, at most `timeout`: from then on the value lives as long as this
    /// reference, whatever becomes of the process that passed it. Returns false if the value is lost.
    ///
    /// # Errors
    /// [`FetchError::Timeout`].
    pub fn confirmed(&self, timeout: Duration) -> Result<bool, FetchError> {
        let mut answer = self.table()?.confirmation(self.id());
        Ok(self.waited(&mut answer, timeout)?.unwrap_or(false))
    }

    /// The table of this process. A made-up reference has none, and nothing to fetch.
    pub(super) fn table(&self) -> Result<&Arc<dyn ReferenceTable>, FetchError> {
        self.handle.table().ok_or(FetchError::Freed { id: self.named() })
    }

    /// Waits for an answer, as remote functions wait.
    pub(super) fn waited<A>(
        &self,
        answer: &mut Answer<A>,
        timeout: Duration,
    ) -> Result<Result<A, NoAnswer>, FetchError> {
        wait_for(answer, timeout).map_err(|reason| self.not_awaited(reason))
    }

    /// Asks the owner something, and waits for the answer, as remote functions wait. A function that must not wait asks
    /// nothing.
    pub(super) fn asked<A>(
        &self,
        timeout: Duration,
        ask: impl FnOnce(Arc<dyn ReferenceTable>) -> Answer<A>,
    ) -> Result<Result<A, NoAnswer>, FetchError> {
        let table = Arc::clone(self.table()?);
        let answered = WaitPermit::begin(timeout).and_then(|waiting| waiting.wait_for(&mut ask(table)));
        answered.map_err(|reason| self.not_awaited(reason))
    }

    /// The content of an object of this process, as its waiters see it.
    pub(super) fn made(&self, content: Result<Content, NoAnswer>) -> Result<ObjectValue, FetchError> {
        self.handle.made(self.named(), content)
    }

    /// The error of a question that was not answered as was asked.
    pub(super) fn unanswered(&self, answer: Result<Fetched, NoAnswer>) -> FetchError {
        self.handle.unanswered(self.named(), answer)
    }

    /// The error of a wait that ended without its answer.
    pub(crate) fn not_awaited(&self, reason: Unanswered) -> FetchError {
        let id = self.named();
        match reason {
            Unanswered::Cancelled => FetchError::Cancelled { id },
            Unanswered::TimedOut { waited } => FetchError::Timeout { id, waited },
            Unanswered::Refused(NoBlocking::Async) => FetchError::WouldBlock { id },
            Unanswered::Refused(NoBlocking::TooMany { limit }) => FetchError::TooManyBlocked { id, limit },
        }
    }

    /// Asks the owner about the value.
    pub(super) fn ask(&self, wish: Wish) -> Result<Answer<Fetched>, FetchError> {
        Ok(Arc::clone(self.table()?).ask(self.id(), wish))
    }
}

/// The source of a value.
enum ValueSource {
    /// The owner is this process.
    Here(Answer<Content>),
    /// The value was fetched before.
    Fetched(AnyShared),
    /// The owner is to be asked.
    Owner,
}

impl<T: Send + Sync + 'static> Ref<T> {
    /// The value itself, if this process is its owner and the value is there. The same `Arc` for every caller.
    #[must_use]
    pub fn local(&self) -> Option<Arc<T>> {
        let value = self.handle.owner_table()?.content_now(self.id())?.ok()?;
        match value.get::<StoredValue>() {
            None => shared(&value),
            Some(stored) => {
                let value = stored.fetched().or_else(|| {
                    let bytes = stored.open().try_take()?.ok()?.ok()?;
                    stored.read_as_put(&bytes)
                });
                value?.downcast().ok()
            }
        }
    }

    /// The bytes of a stored value, as the store has answered.
    fn opened(&self, answer: Result<Result<Bytes, StoreError>, NoAnswer>) -> Result<Bytes, FetchError> {
        let id = self.named();
        match answer {
            Ok(Ok(bytes)) => Ok(bytes),
            // A store that has ended with the runtime has nothing any more.
            Ok(Err(_)) if self.handle.is_stopped() => Err(FetchError::Shutdown { id }),
            Ok(Err(error)) => Err(FetchError::Stored { id, error }),
            Err(_) => Err(FetchError::Shutdown { id }),
        }
    }

    /// The owner's own value, as soon as it is made; `None` if this process is not the owner.
    pub(crate) fn here(&self) -> Option<impl Future<Output = Result<Arc<T>, FetchError>> + Send> {
        let mut content = self.handle.owner_table()?.content(self.id());
        Some(async move {
            loop {
                let value = self.made(content.await)?;
                let stored = match value.get::<StoredValue>() {
                    Some(stored) => stored,
                    None => return shared(&value).ok_or_else(|| self.wrong_type()),
                };
                let opened = stored.open().await;
                if let Some(again) = self.lost(&value, &opened) {
                    content = again;
                    continue;
                }
                let bytes = self.opened(opened)?;
                let value = stored.fetched().or_else(|| stored.read_as_put(&bytes));
                return self.typed(value.ok_or_else(|| self.wrong_type())?);
            }
        })
    }

    /// If the store has lost the value, tells the owner so, and returns the wait for the one in its place.
    fn lost(
        &self,
        value: &ObjectValue,
        opened: &Result<Result<Bytes, StoreError>, NoAnswer>,
    ) -> Option<Answer<Content>> {
        let Ok(Err(error)) = opened else { return None };
        let table = self.handle.owner_table()?;
        let is_lost = Arc::clone(table).refused(self.id(), value, error);
        is_lost.then(|| table.content(self.id()))
    }

    fn source(&self) -> ValueSource {
        if let Some(table) = self.handle.owner_table() {
            return ValueSource::Here(table.content(self.id()));
        }
        match self.handle.fetched() {
            Some(value) => ValueSource::Fetched(Arc::clone(value)),
            None => ValueSource::Owner,
        }
    }

    fn typed(&self, value: AnyShared) -> Result<Arc<T>, FetchError> {
        value.downcast().map_err(|_| self.wrong_type())
    }

    fn wrong_type(&self) -> FetchError {
        FetchError::WrongType {
            id: self.named(),
            wanted: type_name::<T>(),
        }
    }
}

/// The value of an object as a `T`, if it is one.
fn shared<T: Send + Sync + 'static>(value: &ObjectValue) -> Option<Arc<T>> {
    value.get().or_else(|| value.get::<SetValue>()?.get())
}

impl<T: Wire> Ref<T> {
    /// The value of an object of this process. One that another process has set is decoded here: user code.
    fn of_value(&self, value: &ObjectValue) -> Result<Arc<T>, FetchError> {
        let read = match value.get::<SetValue>() {
            Some(set) => set.read(),
            None => Ok(value.get()),
        };
        let id = self.named();
        let read = read.map_err(|failure| FetchError::Unreadable { id, failure })?;
        read.ok_or_else(|| self.wrong_type())
    }

    /// The value of an object in the store of this process, with the store's answer. User code runs here: `Deserialize`.
    fn of_store(
        &self,
        stored: &StoredValue,
        answer: Result<Result<Bytes, StoreError>, NoAnswer>,
    ) -> Result<Arc<T>, FetchError> {
        let bytes = self.opened(answer)?;
        let id = self.named();
        let value = stored.read::<T>(&bytes);
        self.typed(value.map_err(|failure| FetchError::Unreadable { id, failure })?)
    }

    /// Returns the value: the owner's own `Arc` in its process, a copy elsewhere, which further fetches by way of this
    /// reference and its clones share. Waits at most one minute for a value that is not made yet.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn fetch(&self) -> Result<Arc<T>, FetchError> {
        self.fetch_timeout(CALL_TIMEOUT)
    }

    /// Returns the value like [`fetch`](Self::fetch), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn fetch_timeout(&self, timeout: Duration) -> Result<Arc<T>, FetchError> {
        if let Some(value) = self.carried() {
            return Ok(value);
        }
        let limit = TimeLimit::begin(timeout);
        self.fetch_within(&limit).map_err(|error| match error {
            FetchError::Timeout { id, .. } => FetchError::Timeout {
                id,
                waited: limit.taken(),
            },
            error => error,
        })
    }

    fn fetch_within(&self, limit: &TimeLimit) -> Result<Arc<T>, FetchError> {
        match self.source() {
            ValueSource::Here(answer) => self.fetch_here(answer, limit),
            ValueSource::Fetched(value) => self.typed(value),
            ValueSource::Owner => {
                let ask = |wish| self.asked(limit.left(), |table| table.ask(self.id(), wish));
                let mut fetched = ask(Wish::Value)?;
                if is_out_of_reach(&fetched) {
                    fetched = ask(Wish::Letter)?;
                }
                self.read(fetched)
            }
        }
    }

    /// Waits for the value of an object of this process.
    fn fetch_here(&self, mut answer: Answer<Content>, limit: &TimeLimit) -> Result<Arc<T>, FetchError> {
        loop {
            let value = self.made(self.waited(&mut answer, limit.left())?)?;
            let stored = match value.get::<StoredValue>() {
                Some(stored) => stored,
                None => return self.of_value(&value),
            };
            if let Some(fetched) = stored.fetched() {
                return self.typed(fetched);
            }
            let opened = self.waited(&mut stored.open(), limit.left())?;
            match self.lost(&value, &opened) {
                Some(again) => answer = again,
                None => return self.of_store(&stored, opened),
            }
        }
    }

    /// Awaits the value of an object of this process.
    async fn await_here(&self, mut answer: Answer<Content>) -> Result<Arc<T>, FetchError> {
        loop {
            let value = self.made(answer.await)?;
            let stored = match value.get::<StoredValue>() {
                Some(stored) => stored,
                None => return self.of_value(&value),
            };
            if let Some(fetched) = stored.fetched() {
                return self.typed(fetched);
            }
            let opened = stored.open().await;
            match self.lost(&value, &opened) {
                Some(again) => answer = again,
                None => return self.of_store(&stored, opened),
            }
        }
    }

    /// The value that has come along with the reference, or was fetched before. One that cannot be decoded is as good as none.
    fn carried(&self) -> Option<Arc<T>> {
        if let Some(value) = self.handle.fetched() {
            return self.typed(Arc::clone(value)).ok();
        }
        if let Some(value) = self.handle.view().get() {
            return self.typed(value).ok();
        }
        let value: T = decoded(self.handle.encoded()?, const { &Traits::LETTER }).ok()?;
        self.typed(self.handle.keep(Arc::new(value))).ok()
    }

    /// Decodes what the owner has answered, and keeps it. User code runs here: `Deserialize`.
    fn read(&self, fetched: Result<Fetched, NoAnswer>) -> Result<Arc<T>, FetchError> {
        let decode = |bytes: &Bytes| {
            let value: T = decoded(bytes, const { &Traits::LETTER })?;
            Ok(Arc::new(value) as AnyShared)
        };
        self.typed(self.handle.read(self.named(), fetched, &decode)?)
    }
}

/// Whether a value lies where this process cannot map it.
fn is_out_of_reach(fetched: &Result<Fetched, NoAnswer>) -> bool {
    match fetched {
        Ok(Fetched::OutOfReach) => true,
        Ok(Fetched::Stored { pin, .. }) => !pin.is_mappable(),
        _ => false,
    }
}

impl<T: Wire> IntoFuture for &Ref<T> {
    type Output = Result<Arc<T>, FetchError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let this = self.clone();
        Box::pin(async move {
            if let Some(value) = this.carried() {
                return Ok(value);
            }
            match this.source() {
                ValueSource::Here(answer) => this.await_here(answer).await,
                ValueSource::Fetched(value) => this.typed(value),
                ValueSource::Owner => {
                    let mut fetched = this.ask(Wish::Value)?.await;
                    if is_out_of_reach(&fetched) {
                        fetched = this.ask(Wish::Letter)?.await;
                    }
                    this.read(fetched)
                }
            }
        })
    }
}
