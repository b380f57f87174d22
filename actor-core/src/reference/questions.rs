//! The table of this process as handles see it: contents of its own objects, and questions to the owners of others.

use std::any::Any;
use std::sync::Arc;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::refs::{Event, RefError, RefId, RefStatus};
use selvedge_objects::store::StoreError;

use super::content::{Content, LostCopy, ObjectValue};
use super::effect::EffectThread;
use super::fetch::{FetchMessage, Fetched, Wish};
use super::handle::{Handle, ReferenceTable};
use super::references::References;
use super::table::ObjectCell;
use super::unsaid::Unsaid;
use crate::body::Body;
use crate::failure::Failure;
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;
use crate::promise::{Answer, promise, promise_by_letter};

impl References {
    /// Takes note of a question to the owner; `None` if there is nobody to ask, or nothing to ask anew, with the answer.
    fn question(&self, id: RefId, wish: Wish) -> (Option<u64>, Answer<Fetched>) {
        let (asker, answer) = promise_by_letter(self.post.lead());
        let mut table = self.table.lock();
        if table.is_stopped {
            return (None, answer);
        }
        let refused = match table.refs.check(id) {
            Ok(()) => None,
            Err(RefError::CreateTimedOut(_)) => Some(Fetched::CreateTimedOut),
            Err(_) => Some(Fetched::OwnerLost),
        };
        if let Some(refused) = refused {
            drop(table);
            asker.keep(refused);
            return (None, answer);
        }
        let Err(asker) = table.questions.join(id, wish, asker) else {
            return (None, answer);
        };
        let question = wish.question(table.next_number());
        table.questions.insert(question, id, wish, asker);
        (Some(question), answer)
    }
}

impl ReferenceTable for References {
    fn me(&self) -> Peer {
        self.post.me()
    }

    fn name(&self, process: ProcessId) -> ProcessName {
        self.post.names().name(process)
    }

    fn end(&self, life: Peer) -> Option<Arc<ProcessEnd>> {
        self.post.ends().known_end(life)
    }

    fn is_stopped(&self) -> bool {
        References::is_stopped(self)
    }

    fn dropped(self: Arc<Self>, id: RefId) {
        self.event(EffectThread::here(), Event::Dropped(id));
    }

    fn content(&self, id: RefId) -> Answer<Content> {
        let (asker, answer) = promise();
        let mut table = self.table.lock();
        if table.is_stopped && !matches!(table.cells.get(&id), Some(ObjectCell::Full(_))) {
            return answer;
        }
        match table.cells.or_default(id) {
            ObjectCell::Empty(waiting) => {
                // Calls that were cancelled meanwhile leave nothing behind.
                if waiting.len() == waiting.capacity() {
                    waiting.retain(|promise| !promise.is_abandoned());
                }
                waiting.push(asker);
            }
            ObjectCell::Full(content) => {
                let content = content.clone();
                drop(table);
                asker.keep(content);
            }
        }
        answer
    }

    fn content_now(&self, id: RefId) -> Option<Content> {
        match self.table.lock().cells.get(&id)? {
            ObjectCell::Empty(_) => None,
            ObjectCell::Full(content) => Some(content.clone()),
        }
    }

    fn refused(self: Arc<Self>, id: RefId, value: &ObjectValue, error: &StoreError) -> bool {
        if let Some(copy) = LostCopy::by(error) {
            self.lost(id, value, copy);
            return true;
        }
        // The owner may have heard of a loss on all hosts already.
        !matches!(self.content_now(id), Some(Ok(known)) if known.is_same(value))
    }

    fn ask(self: Arc<Self>, id: RefId, wish: Wish) -> Answer<Fetched> {
        let (question, answer) = self.question(id, wish);
        if let Some(question) = question {
            let message = match wish {
                Wish::Value | Wish::Letter | Wish::Readiness => FetchMessage::Ask { question, id },
                Wish::State => FetchMessage::Look { question, id },
            };
            if let Err(error) = self.post.send(id.owner, message.letter(Body::EMPTY)) {
                self.answered(id.owner, question, Fetched::of_unsent(error));
            }
        }
        answer
    }

    fn set(self: Arc<Self>, id: RefId, value: ObjectValue) -> bool {
        self.fill(id, Ok(value)).is_ok()
    }

    fn ask_to_set(
        self: Arc<Self>,
        object: Arc<Handle>,
        value: Body,
        mut references: Vec<Arc<Handle>>,
    ) -> Answer<Fetched> {
        let id = object.id();
        let (question, answer) = self.question(id, Wish::State);
        let Some(question) = question else { return answer };
        references.push(object);
        let sent = self.send(id.owner, None, &references, |parcels| {
            FetchMessage::Set { question, parcels }.letter(value)
        });
        if let Err(error) = sent {
            let refused = match error {
                Unsaid::Reference(error) => Fetched::Unreadable(Failure::from_error(error).into_report()),
                Unsaid::Post(error) => Fetched::of_unsent(error),
            };
            self.answered(id.owner, question, refused);
        }
        answer
    }

    fn flush(self: Arc<Self>, id: RefId) {
        self.event(EffectThread::here(), Event::Flush(id.owner));
    }

    fn above(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.above.get()?.upgrade()
    }

    fn confirmation(&self, id: RefId) -> Answer<bool> {
        let (asker, answer) = promise();
        let mut table = self.table.lock();
        let known = match table.refs.status(id) {
            Some(RefStatus::Pending) if table.is_stopped => return answer,
            Some(RefStatus::Pending) => {
                table.confirmations.or_default(id).push(asker);
                return answer;
            }
            status => status == Some(RefStatus::Confirmed),
        };
        drop(table);
        asker.keep(known);
        answer
    }
}
