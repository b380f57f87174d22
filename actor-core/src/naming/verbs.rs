//! The verbs of a runtime about names.

use std::any::type_name;
use std::sync::Arc;
use std::time::Instant;

use selvedge_cluster::peer::Peer;
use selvedge_objects::names::{NameAnswer, NameRefusal, NamedObject, NamingId, check_name};
use selvedge_objects::refs::RefError;

use super::error::NameError;
use super::info::NameInfo;
use super::message::NameMessage;
use super::reply::NameReply;
use super::service::Naming;
use crate::call::request::CALL_TIMEOUT;
use crate::hub::post::PostError;
use crate::process_name::NameBook;
use crate::reference::Ref;
use crate::reference::handle::Handle;
use crate::reference::unsaid::Unsaid;
use crate::runtime::Runtime;
use crate::waiting::WaitPermit;

impl Runtime {
    /// Gives a reference a name, by which any process of the runtime finds it with [`named`](Self::named): a worker, the process that made the
    /// runtime, and each job. The value stays in its process, and lives until the name is taken away and no reference is left, whatever
    /// becomes of the process that gave the name.
    ///
    /// A name is any text of up to 255 bytes. It goes when the process of the value ends. The value itself does not change; one that
    /// holds a `Mutex` or atomics is an actor that functions with a `#[here]` parameter call.
    ///
    /// ```
    /// # use selvedge_core as selvedge;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use selvedge::{NameError, Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::new();
    /// let numbers = runtime.put(vec![1_u64, 2])?;
    /// runtime.name("numbers", &numbers)?;
    /// drop(numbers);
    /// assert_eq!(*runtime.named::<Vec<u64>>("numbers")?.fetch()?, [1, 2]);
    ///
    /// let error = runtime.named::<Vec<u64>>("number").unwrap_err();
    /// assert!(error.to_string().contains("similar names: `numbers`"));
    /// runtime.unname("numbers")?;
    /// assert!(matches!(runtime.named::<Vec<u64>>("numbers"), Err(NameError::Unknown { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`NameError::Taken`] if another reference has the name: of several processes that give it at once, one wins.
    /// [`NameError::OwnerDead`] if the value is lost; [`NameError`] has the others. Waits for answers up to a minute.
    pub fn name<T>(&self, name: &str, reference: &Ref<T>) -> Result<(), NameError> {
        self.naming_client(name)?
            .name(reference.handle(), type_name::<T>())
    }

    /// Finds a reference by its name. The reference is like any other: it holds the value also if the name is taken away.
    ///
    /// # Errors
    /// [`NameError::Unknown`] with similar names, [`NameError::WrongType`], [`NameError::OwnerDead`] if the process of the value
    /// has died; [`NameError`] has the others. Waits for answers up to a minute.
    pub fn named<T>(&self, name: &str) -> Result<Ref<T>, NameError> {
        self.naming_client(name)?.find(type_name::<T>()).map(Ref::of)
    }

    /// Takes a name away, whoever gave it. The value lives on as long as there are references to it.
    ///
    /// # Errors
    /// [`NameError::Unknown`] if no reference has the name; [`NameError`] has the others. Waits for an answer up to a minute.
    pub fn unname(&self, name: &str) -> Result<(), NameError> {
        self.naming_client(name)?.unname()
    }

    /// The names of the runtime's references, in their order.
    ///
    /// # Errors
    /// [`NameError::NoHead`] if the process that made the runtime has died; [`NameError`] has the others. Waits for an answer up
    /// to a minute.
    pub fn names(&self) -> Result<Vec<NameInfo>, NameError> {
        let client = self.naming_client("")?;
        let objects = client.list()?.into_iter();
        let info = |object: NamedObject| NameInfo {
            owner: client.book.name(object.id.owner.process),
            namer: client.book.name(object.namer.process),
            name: object.name,
            type_name: object.type_name,
            id: object.id,
        };
        Ok(objects.map(info).collect())
    }

    fn naming_client<'a>(&'a self, name: &'a str) -> Result<NamingClient<'a>, NameError> {
        if !self.is_open() {
            return Err(NameError::Shutdown);
        }
        let remote = self.remote();
        Ok(NamingClient {
            naming: remote.naming(),
            book: &remote.names,
            name,
            began: Instant::now(),
        })
    }
}

/// The asker's side of one verb.
struct NamingClient<'a> {
    naming: &'a Naming,
    book: &'a NameBook,
    name: &'a str,
    began: Instant,
}

impl NamingClient<'_> {
    fn name(&self, reference: &Arc<Handle>, type_name: &str) -> Result<(), NameError> {
        check_name(self.name, type_name).map_err(|refusal| self.refused(refusal))?;
        let references = &self.naming.references;
        if references.is_foreign(reference) {
            return Err(NameError::Reference(RefError::Foreign(reference.id())));
        }
        references
            .check(reference.id())
            .map_err(|error| self.not_passed(error))?;
        let (name, type_name) = (self.name.to_owned(), type_name.to_owned());
        let message = |question| NameMessage::Name {
            question,
            name,
            type_name,
        };
        self.done(self.asked(self.head()?, message, Some(reference))?)
    }

    fn unname(&self) -> Result<(), NameError> {
        let name = self.name.to_owned();
        let message = |question| NameMessage::Unname { question, name };
        self.done(self.asked(self.head()?, message, None)?)
    }

    fn done(&self, reply: NameReply) -> Result<(), NameError> {
        match reply {
            NameReply::Answered(NameAnswer::Done) => Ok(()),
            reply => Err(self.unanswered(reply)),
        }
    }

    /// Finds the object, and has its owner pass it. If that does not hold it any more, it has lost its name meanwhile, and another one may
    /// have it: the head is asked again.
    fn find(&self, wanted: &'static str) -> Result<Arc<Handle>, NameError> {
        let mut before: Option<NamingId> = None;
        loop {
            let found = self.found()?;
            if found.type_name != wanted {
                return Err(NameError::WrongType {
                    name: found.name,
                    type_name: found.type_name,
                    wanted,
                });
            }
            let naming = found.naming;
            if before == Some(naming) {
                let (name, why) = (found.name, "it does not pass the reference".to_owned());
                return Err(NameError::Unheld { name, why });
            }
            let message = |question| NameMessage::Take { question, naming };
            let owner_dead = || NameError::of(NameRefusal::OwnerDead(found.id.owner), self.name, self.book);
            match self.asked(found.id.owner, message, None) {
                Ok(NameReply::Taken(Some(handle))) if handle.id() == found.id => return Ok(handle),
                Ok(NameReply::Taken(_)) => before = Some(naming),
                Ok(NameReply::Died) | Err(NameError::NoHead) => return Err(owner_dead()),
                Ok(reply) => return Err(self.unanswered(reply)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The object that has the name.
    fn found(&self) -> Result<NamedObject, NameError> {
        let name = self.name.to_owned();
        let message = |question| NameMessage::Find { question, name };
        match self.asked(self.head()?, message, None)? {
            NameReply::Answered(NameAnswer::Found(object)) => Ok(object),
            reply => Err(self.unanswered(reply)),
        }
    }

    fn list(&self) -> Result<Vec<NamedObject>, NameError> {
        let message = |question| NameMessage::List { question };
        match self.asked(self.head()?, message, None)? {
            NameReply::Listed(objects) => Ok(objects),
            reply => Err(self.unanswered(reply)),
        }
    }

    fn head(&self) -> Result<Peer, NameError> {
        self.naming.head().ok_or(NameError::NoHead)
    }

    /// Asks a process, and waits for its answer, as remote functions wait. A function that must not wait asks nothing.
    fn asked(
        &self,
        to: Peer,
        message: impl FnOnce(u64) -> NameMessage,
        reference: Option<&Arc<Handle>>,
    ) -> Result<NameReply, NameError> {
        let waiting = WaitPermit::begin(CALL_TIMEOUT.saturating_sub(self.began.elapsed()))?;
        let mut asked = self
            .naming
            .ask(to, message, reference)
            .map_err(|error| self.unsaid(to, error))?;
        waiting
            .wait_for(&mut asked.reply)?
            .map_err(|_| NameError::Shutdown)
    }

    fn unsaid(&self, to: Peer, error: Unsaid) -> NameError {
        match error {
            Unsaid::Reference(error) => self.not_passed(error),
            Unsaid::Post(PostError::Dead(_) | PostError::NoSuchPeer(_)) => NameError::NoHead,
            Unsaid::Post(error) => NameError::Unreachable {
                process: self.book.name(to.process),
                reason: error.to_string(),
            },
        }
    }

    fn not_passed(&self, error: RefError) -> NameError {
        match error {
            RefError::Lost(id) => self.refused(NameRefusal::OwnerDead(id.owner)),
            error => NameError::Reference(error),
        }
    }

    fn refused(&self, refusal: NameRefusal) -> NameError {
        NameError::of(refusal, self.name, self.book)
    }

    fn unanswered(&self, reply: NameReply) -> NameError {
        match reply {
            NameReply::Answered(NameAnswer::Refused(refusal)) => self.refused(refusal),
            NameReply::Died => NameError::NoHead,
            // No lawful head answers something else.
            _ => NameError::Unheld {
                name: self.name.to_owned(),
                why: "the answer is one to another question".to_owned(),
            },
        }
    }
}
