//! Messages about names that arrive. No user code runs here.

use std::sync::Arc;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::names::{NameAnswer, NameEvent, NameRefusal, NamedObject, NamingId};
use selvedge_objects::refs::{Parcel, RefError};

use super::message::NameMessage;
use super::reply::NameReply;
use super::service::Naming;
use crate::hub::post::Letter;
use crate::reference::handle::Handle;
use crate::reference::references::Object;

impl Naming {
    /// A letter has arrived.
    pub(crate) fn received(&self, from: Peer, letter: &Letter) {
        let Some((message, parcels)) = NameMessage::of(letter) else {
            let why = "it sent a letter about names that cannot be read".to_owned();
            return self.post.cut(from, why);
        };
        if !self.is_lawful(from, &message, &parcels) {
            let why = "it sent a letter about names that another process may send".to_owned();
            return self.post.cut(from, why);
        }
        if matches!(message, NameMessage::Name { .. }) {
            // The owner need not list this process first: it gets the reference itself next.
            return match self.references.take_over(from, parcels) {
                Ok(handles) => self.heard(from, message, handles.into_iter().next()),
                Err(error) => self.refuse(from, message, error),
            };
        }
        let (me, references) = ((self, &self.this), &self.references);
        references.arrived_at(me, from, parcels, move |this, handles| match handles {
            Ok(handles) => this.heard(from, message, handles.into_iter().next()),
            Err(error) => this.refuse(from, message, error),
        });
    }

    /// Whether a process may say this to this one, with these references.
    fn is_lawful(&self, from: Peer, message: &NameMessage, parcels: &[Parcel]) -> bool {
        let is_of_head = from.process == ProcessId::HEAD;
        match message {
            NameMessage::Name { .. }
            | NameMessage::Find { .. }
            | NameMessage::Unname { .. }
            | NameMessage::List { .. }
            | NameMessage::Held { .. }
            | NameMessage::Holding { .. } => self.table.is_some(),
            NameMessage::Hold(object) => {
                let is_passed = parcels.iter().all(|parcel| parcel.id() == object.id);
                is_of_head && is_passed && object.id.owner == self.me() && object.naming.head == from
            }
            NameMessage::Unhold { .. } | NameMessage::Recall => is_of_head,
            // Whoever was not asked has no effect.
            NameMessage::Answer { .. }
            | NameMessage::Listed { .. }
            | NameMessage::Take { .. }
            | NameMessage::Taken { .. } => true,
        }
    }

    /// A process, which may be this one, has said something.
    pub(super) fn heard(&self, from: Peer, message: NameMessage, reference: Option<Arc<Handle>>) {
        match message {
            NameMessage::Name {
                question,
                name,
                type_name,
            } => {
                let Some(reference) = reference else { return };
                let event = NameEvent::Name {
                    from,
                    question,
                    name,
                    type_name,
                    id: reference.id(),
                };
                self.step(event, Some(&reference));
            }
            NameMessage::Find { question, name } => {
                let event = NameEvent::Find { from, question, name };
                self.step(event, None);
            }
            NameMessage::Unname { question, name } => {
                let event = NameEvent::Unname { from, question, name };
                self.step(event, None);
            }
            NameMessage::List { question } => self.list(from, question),
            NameMessage::Answer { question, answer } => {
                self.answered(from, question, NameReply::Answered(answer));
            }
            NameMessage::Listed { question, objects } => {
                self.answered(from, question, NameReply::Listed(objects));
            }
            NameMessage::Hold(object) => self.hold(from, object, reference),
            NameMessage::Held {
                name,
                naming,
                refused,
            } => {
                let event = NameEvent::Held {
                    from,
                    name,
                    naming,
                    refused,
                };
                self.step(event, None);
            }
            NameMessage::Unhold { naming } => {
                // Bound by a name of its own, so that the handle is dropped without the lock.
                let handle = self.held.lock().unhold(naming);
                drop(handle);
            }
            NameMessage::Recall => {
                let objects = self.held.lock().recall(from);
                self.tell(from, NameMessage::Holding { objects });
            }
            NameMessage::Holding { objects } => {
                self.step(NameEvent::Holding { from, objects }, None);
            }
            NameMessage::Take { question, naming } => self.take(from, question, naming),
            NameMessage::Taken { question } => self.answered(from, question, NameReply::Taken(reference)),
        }
    }

    /// Holds an object of this process for its name, unless its value is an error: that of its function, or that it was freed because the
    /// namer has died.
    fn hold(&self, head: Peer, object: NamedObject, reference: Option<Arc<Handle>>) {
        let Some(reference) = reference else { return };
        let (name, naming) = (object.name.clone(), object.naming);
        let refused = match self.references.object(object.id) {
            Object::Content(Err(failure)) => Some(failure.to_string()),
            _ => {
                let held = self.held.lock().hold(object, reference);
                held.err()
                    .map(|_| "the head that has asked for it is dead".to_owned())
            }
        };
        self.tell(
            head,
            NameMessage::Held {
                name,
                naming,
                refused,
            },
        );
    }

    /// Passes an object that is held to a process that looks for it.
    fn take(&self, to: Peer, question: u64, naming: NamingId) {
        let held = self.held.lock().handle(naming).map(Arc::clone);
        let taken = NameMessage::Taken { question };
        if self.say(to, taken.clone(), held.as_ref()).is_err() {
            self.tell(to, taken);
        }
    }

    /// The reference of a message is refused.
    fn refuse(&self, from: Peer, message: NameMessage, error: RefError) {
        let why = error.to_string();
        match message {
            NameMessage::Name { question, .. } => {
                let refusal = match error {
                    RefError::Lost(id) => NameRefusal::OwnerDead(id.owner),
                    _ => NameRefusal::Unheld { why },
                };
                let answer = NameAnswer::Refused(refusal);
                self.tell(from, NameMessage::Answer { question, answer });
            }
            NameMessage::Hold(object) => self.tell(
                from,
                NameMessage::Held {
                    name: object.name,
                    naming: object.naming,
                    refused: Some(why),
                },
            ),
            NameMessage::Taken { question } => self.answered(from, question, NameReply::Taken(None)),
            _ => {}
        }
    }
}
