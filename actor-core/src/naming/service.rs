//! The service of names of one process: the names themselves, if it is the head, what it holds for them, and its own questions.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::names::{HeldNames, NameAction, NameChange, NameEvent, NameTable, NamedObject};
use selvedge_objects::refs::RefError;

use super::message::NameMessage;
use super::reply::NameReply;
use crate::hub::post::{Post, PostError};
use crate::promise::{Answer, Promise, promise_by_letter};
use crate::questions::Questions;
use crate::reference::handle::Handle;
use crate::reference::references::References;
use crate::reference::unsaid::Unsaid;

/// The service of names of one process.
pub(crate) struct Naming {
    pub(super) post: Arc<dyn Post>,
    pub(super) references: Arc<References>,
    /// The names, if this process is the head.
    pub(super) table: Option<Mutex<NameTable>>,
    /// The objects of this process that have names.
    pub(super) held: Mutex<HeldNames<Arc<Handle>>>,
    /// The questions of this process; `None` once it ends.
    questions: Mutex<Option<Questions<Promise<NameReply>>>>,
    /// Writes down what the table decides, if this process is a head with a log.
    recorder: OnceLock<NameRecorder>,
    pub(super) this: Weak<Naming>,
}

/// Writes changes of the names to a log, in the order of its calls. Once they are there, and not if they cannot be written, the function is
/// called, on another thread. The recorder itself must not block: the names are locked meanwhile.
pub(crate) type NameRecorder = Box<dyn Fn(Vec<NameChange>, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// A question that was asked. Its drop leaves nothing behind.
pub(super) struct AskedName<'a> {
    naming: &'a Naming,
    question: Option<u64>,
    pub(super) reply: Answer<NameReply>,
}

impl Drop for AskedName<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question {
            let mut questions = self.naming.questions.lock();
            let forgotten = questions.as_mut().and_then(|open| open.forget(question));
            drop(questions);
            // The end of the promise may wake a task of the user.
            drop(forgotten);
        }
    }
}

impl Naming {
    /// Creates the service.
    pub(crate) fn new(post: Arc<dyn Post>, references: &Arc<References>) -> Arc<Self> {
        let me = post.me();
        let is_head = me.process == ProcessId::HEAD;
        Arc::new_cyclic(|this| Naming {
            post,
            references: Arc::clone(references),
            table: is_head.then(|| Mutex::new(NameTable::new(me))),
            held: Mutex::default(),
            questions: Mutex::new(Some(Questions::default())),
            recorder: OnceLock::new(),
            this: Weak::clone(this),
        })
    }

    pub(super) fn me(&self) -> Peer {
        self.post.me()
    }

    /// The process that has the names; `None` if it is dead.
    pub(super) fn head(&self) -> Option<Peer> {
        match self.table {
            Some(_) => Some(self.me()),
            None => self.post.peer(ProcessId::HEAD),
        }
    }

    /// The names, if this process is the head.
    pub(crate) fn names(&self) -> Vec<NamedObject> {
        let table = self.table.as_ref().map(Mutex::lock);
        table.map_or_else(Vec::new, |table| table.named().cloned().collect())
    }

    /// Asks a process, which may be this one.
    ///
    /// # Errors
    /// [`Unsaid`]: nobody was asked.
    pub(super) fn ask(
        &self,
        to: Peer,
        message: impl FnOnce(u64) -> NameMessage,
        reference: Option<&Arc<Handle>>,
    ) -> Result<AskedName<'_>, Unsaid> {
        let (asker, reply) = promise_by_letter(self.post.lead());
        // A promise that is not noted breaks here.
        let mut questions = self.questions.lock();
        let question = questions.as_mut().map(|open| open.begin(to, asker));
        drop(questions);
        let asked = AskedName {
            naming: self,
            question,
            reply,
        };
        if let Some(question) = question {
            self.say(to, message(question), reference)?;
        }
        Ok(asked)
    }

    /// A process has answered.
    pub(super) fn answered(&self, from: Peer, question: u64, reply: NameReply) {
        let mut questions = self.questions.lock();
        let asker = questions.as_mut().and_then(|open| open.end(from, question));
        drop(questions);
        if let Some(asker) = asker {
            self.references.keep_promise(asker, reply);
        }
    }

    /// Says something to a process, which may be this one, and passes it a reference along.
    ///
    /// # Errors
    /// [`Unsaid`].
    pub(super) fn say(
        &self,
        to: Peer,
        message: NameMessage,
        reference: Option<&Arc<Handle>>,
    ) -> Result<(), Unsaid> {
        if to == self.me() {
            self.heard(to, message, reference.map(Arc::clone));
            return Ok(());
        }
        let handles: Vec<_> = reference.into_iter().map(Arc::clone).collect();
        let letter = |parcels| message.letter(parcels);
        self.references.send(to, None, &handles, letter).map(drop)
    }

    /// Says what a process must learn.
    pub(super) fn tell(&self, to: Peer, message: NameMessage) {
        if let Err(Unsaid::Post(error)) = self.say(to, message, None) {
            self.post.told(to, Err(error));
        }
    }

    /// Steps the names, if this process is the head, and does what follows. `reference` is the one that gets a name.
    pub(super) fn step(&self, event: NameEvent, reference: Option<&Arc<Handle>>) {
        let Some(table) = &self.table else { return };
        let mut locked = table.lock();
        let actions = locked.step(event);
        match self.recorder.get() {
            // Under the lock, so that changes, and answers that know of them, keep their order.
            Some(recorder) if !actions.is_empty() => self.perform_recorded(recorder, actions, reference),
            _ => {
                drop(locked);
                self.perform(actions, reference);
            }
        }
    }

    /// Tells a process all names, if this process is the head. A change among them that is not in the log yet comes there first.
    pub(super) fn list(&self, to: Peer, question: u64) {
        let Some(table) = &self.table else { return };
        let locked = table.lock();
        let objects = locked.named().cloned().collect();
        let listed = NameMessage::Listed { question, objects };
        match self.recorder.get() {
            Some(recorder) => {
                let this = Weak::clone(&self.this);
                let tell = move || {
                    if let Some(this) = this.upgrade() {
                        this.tell(to, listed);
                    }
                };
                recorder(Vec::new(), Box::new(tell));
            }
            None => {
                drop(locked);
                self.tell(to, listed);
            }
        }
    }

    /// Has the changes among actions recorded, and the actions performed behind them.
    fn perform_recorded(
        &self,
        recorder: &NameRecorder,
        actions: Vec<NameAction>,
        reference: Option<&Arc<Handle>>,
    ) {
        let change = |action: &NameAction| match action {
            NameAction::Record(change) => Some(change.clone()),
            _ => None,
        };
        let changes = actions.iter().filter_map(change).collect();
        let (this, reference) = (Weak::clone(&self.this), reference.map(Arc::clone));
        let perform = move || {
            if let Some(this) = this.upgrade() {
                this.perform(actions, reference.as_ref());
            }
        };
        recorder(changes, Box::new(perform));
    }

    fn perform(&self, actions: Vec<NameAction>, reference: Option<&Arc<Handle>>) {
        for action in actions {
            match action {
                // What had to be written is.
                NameAction::Record(_) => {}
                NameAction::Hold(object) => self.have_held(object, reference),
                NameAction::Unhold { to, naming } => self.tell(to, NameMessage::Unhold { naming }),
                NameAction::Recall { to } => self.tell(to, NameMessage::Recall),
                NameAction::Answer { to, question, answer } => {
                    self.tell(to, NameMessage::Answer { question, answer });
                }
            }
        }
    }

    /// Asks an owner to hold an object.
    fn have_held(&self, object: NamedObject, reference: Option<&Arc<Handle>>) {
        let owner = object.id.owner;
        let why = match self.say(owner, NameMessage::Hold(object.clone()), reference) {
            Ok(()) => return,
            Err(
                Unsaid::Reference(RefError::Lost(_) | RefError::Dead(_))
                | Unsaid::Post(PostError::Dead(_) | PostError::NoSuchPeer(_)),
            ) => None,
            Err(error) => Some(error.to_string()),
        };
        self.step(NameEvent::Unasked { object, why }, None);
    }

    /// Letters reach a process from now on.
    pub(crate) fn joined(&self, peer: Peer) {
        self.step(NameEvent::Joined(peer), None);
    }

    /// The process of an owner has ended, perhaps one that this life of the head has never met.
    pub(crate) fn ended(&self, peer: Peer) {
        self.step(NameEvent::Dead(peer), None);
    }

    /// A process is dead.
    pub(crate) fn died(&self, peer: Peer) {
        let mut questions = self.questions.lock();
        let askers = questions.as_mut().map(|open| open.extract_of(peer));
        drop(questions);
        for asker in askers.into_iter().flatten() {
            self.references.keep_promise(asker, NameReply::Died);
        }
        self.step(NameEvent::Dead(peer), None);
    }

    /// Ends all waits, and lets go what is held: the process ends.
    pub(crate) fn stop(&self) {
        let questions = self.questions.lock().take();
        let held = std::mem::take(&mut *self.held.lock());
        drop((questions, held));
    }

    /// Has this head go on for one that has recorded these changes. Its own are given to `recorder`.
    #[cfg(any(test, feature = "hosts"))]
    pub(crate) fn restore(&self, changes: impl IntoIterator<Item = NameChange>, recorder: NameRecorder) {
        if let Some(table) = &self.table {
            *table.lock() = NameTable::restored(self.me(), changes);
            // A head is restored once, before anybody asks it.
            let _ = self.recorder.set(recorder);
        }
    }

    /// The numbers of the objects that are held here and of the open questions.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (usize, usize) {
        let questions = self.questions.lock();
        let open = questions.as_ref().map_or(0, Questions::len);
        (self.held.lock().objects().count(), open)
    }
}
