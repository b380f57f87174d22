//! The messages about names, service 22.

use selvedge_cluster::frame::{Class, Service};
use selvedge_objects::names::{NameAnswer, NamedObject, NamingId};
use selvedge_objects::refs::Parcel;
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::hub::post::Letter;

/// The service of names.
pub(crate) const NAMES: Service = Service(22);

/// A message about a name. Some have a reference beside them, and some a list in the body of their letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NameMessage {
    /// To the head: give a name. With the reference.
    Name {
        question: u64,
        name: String,
        type_name: String,
    },
    /// To the head: which object has the name?
    Find { question: u64, name: String },
    /// To the head: take the name away.
    Unname { question: u64, name: String },
    /// To the head: which names are there?
    List { question: u64 },
    /// From the head.
    Answer { question: u64, answer: NameAnswer },
    /// From the head: all names.
    Listed {
        question: u64,
        #[serde(skip)]
        objects: Vec<NamedObject>,
    },
    /// From the head to an owner: hold this object for its name. With the reference.
    Hold(NamedObject),
    /// From an owner to the head: it holds the object, or has refused to.
    Held {
        name: String,
        naming: NamingId,
        refused: Option<String>,
    },
    /// From the head to an owner: the object has lost its name.
    Unhold { naming: NamingId },
    /// From a head that goes on for a dead one: what is held?
    Recall,
    /// To such a head: all that is held.
    Holding {
        #[serde(skip)]
        objects: Vec<NamedObject>,
    },
    /// To an owner: pass the object that is held under this naming.
    Take { question: u64, naming: NamingId },
    /// From an owner. With the reference, if the object is held.
    Taken { question: u64 },
}

/// The head of a letter.
#[derive(Serialize, Deserialize)]
struct NameHead {
    message: NameMessage,
    parcels: Vec<Parcel>,
}

impl NameMessage {
    /// The list that goes into the body.
    fn list(&mut self) -> Option<&mut Vec<NamedObject>> {
        match self {
            NameMessage::Listed { objects, .. } | NameMessage::Holding { objects } => Some(objects),
            _ => None,
        }
    }

    /// The letter with this message.
    pub(super) fn letter(mut self, parcels: Vec<Parcel>) -> Letter {
        let body = match self.list() {
            // Plain data always encodes.
            Some(objects) => postcard::to_allocvec(objects).unwrap_or_default().into(),
            None => Body::EMPTY,
        };
        let message = self;
        Letter::new(NAMES, Class::Ordered, &NameHead { message, parcels }, body)
    }

    /// The message of a letter and the parcels in it; `None` if the bytes are none.
    pub(super) fn of(letter: &Letter) -> Option<(Self, Vec<Parcel>)> {
        let Ok((NameHead { mut message, parcels }, [])) = postcard::take_from_bytes(&letter.head) else {
            return None;
        };
        if let Some(objects) = message.list() {
            let Ok((listed, [])) = postcard::take_from_bytes(&letter.body.to_bytes()) else {
                return None;
            };
            *objects = listed;
        }
        let has_reference = match message {
            NameMessage::Name { .. } | NameMessage::Hold(_) => parcels.len() == 1,
            NameMessage::Taken { .. } => parcels.len() <= 1,
            _ => parcels.is_empty(),
        };
        let makes_none = |parcel: &Parcel| !matches!(parcel, Parcel::Keep { .. });
        (has_reference && parcels.iter().all(makes_none)).then_some((message, parcels))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use selvedge_objects::refs::RefId;

    use super::*;
    use crate::testing::peer;

    fn object() -> NamedObject {
        let peer = peer(1);
        NamedObject {
            name: "counter".to_owned(),
            naming: NamingId {
                head: peer,
                number: 3,
            },
            id: RefId {
                owner: peer,
                creator: peer,
                number: 4,
            },
            type_name: "u64".to_owned(),
            namer: peer,
        }
    }

    #[test]
    fn a_list_travels_in_the_body_and_a_reference_beside_the_messages_that_have_one() {
        let objects = vec![object(); 3];
        let holding = NameMessage::Holding { objects };
        let letter = holding.clone().letter(Vec::new());
        assert!(letter.head.len() < 8 && letter.body.len() > 50);
        assert_eq!(NameMessage::of(&letter), Some((holding, Vec::new())));

        let id = object().id;
        let (lent, keep) = (Parcel::Lent { id, fork: 1 }, Parcel::Keep { id });
        let is_one = |message: NameMessage, parcels: &[Parcel]| {
            NameMessage::of(&message.letter(parcels.to_vec())).is_some()
        };
        let hold = || NameMessage::Hold(object());
        assert!(is_one(hold(), &[lent]));
        assert!(!is_one(hold(), &[]) && !is_one(hold(), &[lent, lent]) && !is_one(hold(), &[keep]));
        assert!(!is_one(NameMessage::Recall, &[lent]));
        let mut cut = hold().letter(vec![lent]);
        cut.head.pop();
        assert_eq!(NameMessage::of(&cut), None);
    }

    proptest! {
        #[test]
        fn rser_10_any_bytes_are_a_message_about_names_or_nothing(
            head in proptest::collection::vec(any::<u8>(), 0..60), body in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let letter = Letter { head: head.into(), ..Letter::new(NAMES, Class::Ordered, &(), Bytes::from(body)) };
            if let Some((message, parcels)) = NameMessage::of(&letter) {
                let again = message.clone().letter(parcels.clone());
                prop_assert_eq!(NameMessage::of(&again), Some((message, parcels)));
            }
        }
    }
}
