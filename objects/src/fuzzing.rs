//! The functions that fuzz targets run, and, for a short time, every `cargo test`. Bytes of any content are what one process
//! sends to two others; nobody loses anything by it but the sender.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use crate::channel::{Answer, ChannelHome, ChannelSettings, Request, Wish};
use crate::refs::{Action, Bundle, Event, Parcel, RefId, RefSettings, RefStatus, Refs};

const NOW: Duration = Duration::ZERO;
const LIMIT: usize = 16;

/// The sender.
const HOSTILE: u32 = 3;

fn peer(number: u32) -> Peer {
    Peer {
        process: ProcessId::new(number).unwrap_or(ProcessId::HEAD),
        incarnation: Incarnation(1),
    }
}

/// Lets the bytes be frames about references: of each, the first byte says how long it is and the second one what it is.
pub fn references(mut bytes: &[u8]) {
    let mut victims = Victims::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (frame, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        victims.receive(frame);
    }
    victims.bury();
}

/// Process 1 owns an object that process 2 holds.
struct Victims {
    tables: [Refs; 2],
    id: RefId,
    /// Calls that have arrived at each table, with their parcels.
    calls: [BTreeMap<u64, Vec<Parcel>>; 2],
    sent: u64,
}

impl Victims {
    fn new() -> Self {
        let settings = RefSettings {
            entries_max: LIMIT,
            ..RefSettings::default()
        };
        let mut tables = [Refs::new(peer(1), settings), Refs::new(peer(2), settings)];
        let [owner, user] = &mut tables;
        let id = owner.create();
        let parcels = owner.pass(id, peer(2)).into_iter().collect();
        let (from, call) = (peer(1), 0);
        user.step(NOW, Event::Arrived { from, call, parcels });
        owner.step(NOW, Event::Dropped(id));
        Victims {
            tables,
            id,
            calls: [BTreeMap::new(), BTreeMap::new()],
            sent: 0,
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        let Some(event) = self.event(frame) else {
            return;
        };
        for (table, calls) in self.tables.iter_mut().zip(&mut self.calls) {
            if let Event::Arrived { call, parcels, .. } = &event {
                calls.insert(*call, parcels.clone());
            }
            for action in table.step(NOW, event.clone()) {
                match action {
                    Action::RefuseCall { call, .. } => {
                        calls.remove(&call);
                    }
                    Action::Free(id) | Action::Lost(id) => assert_ne!(id, self.id, "REF-8"),
                    _ => {}
                }
            }
            assert!(table.load(peer(HOSTILE)) <= 2 * LIMIT + 1, "REF-9");
        }
    }

    /// An event, from its kind and its encoded content.
    fn event(&mut self, frame: &[u8]) -> Option<Event> {
        let (kind, content) = frame.split_first()?;
        let from = peer(HOSTILE);
        self.sent += 1;
        Some(match kind % 4 {
            0 => {
                let bundle: Bundle = postcard::from_bytes(content).ok()?;
                Event::Heard { from, bundle }
            }
            1 => {
                let (question, id) = postcard::from_bytes(content).ok()?;
                Event::Fetch { from, question, id }
            }
            2 => Event::Tick,
            _ => {
                let parcels: Vec<Parcel> = postcard::from_bytes(content).ok()?;
                let call = self.sent;
                Event::Arrived { from, call, parcels }
            }
        })
    }

    /// The sender dies. Of what it has sent, only references to objects of others may be left.
    fn bury(mut self) {
        let dead = peer(HOSTILE);
        for (table, calls) in self.tables.iter_mut().zip(self.calls) {
            table.step(NOW, Event::Dead(dead));
            assert_eq!((table.stats().calls, table.load(dead)), (0, 0), "REF-7");
            let parcels = calls.into_values().flatten();
            for id in parcels.map(|parcel| parcel.id()).filter(|id| *id != self.id) {
                table.step(NOW, Event::Discarded(id));
            }
            let is_of_the_living = |id: RefId| id.owner != dead;
            assert!(table.ids().all(is_of_the_living), "REF-7");
            assert_eq!(table.status(self.id), Some(RefStatus::Confirmed), "REF-8");
        }
    }
}

/// Lets the bytes be what one process asks of a channel, in three bytes each, while another one puts and takes.
pub fn requests(bytes: &[u8]) {
    let settings = ChannelSettings {
        capacity: 3,
        requests_max: LIMIT,
    };
    let mut home = ChannelHome::new(settings);
    let (lawful, hostile) = (peer(2), peer(HOSTILE));
    let mut answers = 0;
    for (number, request) in bytes.chunks_exact(3).enumerate() {
        let [kind, about, own] = request else {
            continue;
        };
        let wish = match kind % 8 {
            0 => Wish::Put(*about),
            1 | 2 => Wish::Take,
            3 => Wish::Peek,
            4 => Wish::Ready,
            5 => Wish::Acknowledge,
            6 => Wish::Cancel,
            _ => Wish::IsReady,
        };
        let number = number as u64;
        home.request(
            hostile,
            Request {
                number: u64::from(*about),
                wish,
            },
        );
        assert!(home.waiting() + home.on_their_way() <= 2 * LIMIT, "CHANNEL-8");
        let wish = if own % 2 == 0 { Wish::Put(*own) } else { Wish::Take };
        let replies = home.request(lawful, Request { number, wish });
        answers += replies
            .iter()
            .filter(|it| it.to == lawful && it.number == number)
            .count();
    }
    let stored_before = home.len();
    home.dead(hostile);
    assert!(home.len() + LIMIT >= stored_before, "CHANNEL-1");
    home.dead(lawful);
    home.close();
    assert_eq!((home.waiting(), home.on_their_way()), (0, 0), "CHANNEL-7");
    assert!(answers <= bytes.len() / 3, "one answer for each request");
    let stored = home.snapshot();
    for (number, value) in stored.into_iter().enumerate() {
        let (number, wish) = (number as u64, Wish::Take);
        let replies = home.request(peer(1), Request { number, wish });
        let answer = replies.into_iter().next().map(|reply| reply.answer);
        assert_eq!(
            answer,
            Some(Answer::Value(value))
                .filter(|_| number < LIMIT as u64)
                .or(Some(Answer::TooMany { limit: LIMIT })),
            "CHANNEL-3"
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::refs::{Fork, Message};

    fn id() -> impl Strategy<Value = RefId> {
        (1_u32..5, 1_u32..5, 0_u64..4).prop_map(|(owner, creator, number)| RefId {
            owner: peer(owner),
            creator: peer(creator),
            number,
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        (id(), 0_u64..30, 0..7).prop_map(|(id, number, kind)| match kind {
            0 => Message::Fork { id, number },
            1 => Message::Forked {
                id,
                number,
                is_alive: number % 2 == 0,
            },
            2 => Message::Accept { id, fork: number },
            3 => Message::Accepted { id, fork: number },
            4 => Message::Release {
                id,
                fork: Fork::Asked(number),
            },
            5 => Message::Release {
                id,
                fork: Fork::Given(number),
            },
            _ => Message::Released {
                id,
                fork: Fork::Asked(number),
            },
        })
    }

    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let parcel = (id(), 0_u64..9, 0..3).prop_map(|(id, fork, kind)| match kind {
            0 => Parcel::Keep { id },
            1 => Parcel::Given { id, fork },
            _ => Parcel::Lent { id, fork },
        });
        let encoded = |kind: u8, mut content: Vec<u8>| {
            content.insert(0, kind);
            content.insert(0, content.len().min(255) as u8);
            content
        };
        let bundles = (0_u64..9, proptest::collection::vec(message(), 0..4))
            .prop_map(|(low, messages)| postcard::to_stdvec(&Bundle { low, messages }).unwrap());
        let parcels =
            proptest::collection::vec(parcel, 0..4).prop_map(|it| postcard::to_stdvec(&it).unwrap());
        let fetches = (0_u64..9, id()).prop_map(|it| postcard::to_stdvec(&it).unwrap());
        prop_oneof![
            bundles.prop_map(move |it| encoded(0, it)),
            fetches.prop_map(move |it| encoded(1, it)),
            parcels.prop_map(move |it| encoded(3, it)),
        ]
    }

    proptest! {
        #[test]
        fn rser_10_random_bytes_about_references_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            references(&bytes);
            requests(&bytes);
        }

        #[test]
        fn rser_10_random_and_mutated_frames_about_references_are_harmless(
            frames in proptest::collection::vec(frame(), 0..40), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut bytes = frames.concat();
            references(&bytes);
            if !bytes.is_empty() {
                let length = bytes.len();
                bytes[at.index(length)] = byte;
                references(&bytes);
            }
        }
    }
}
