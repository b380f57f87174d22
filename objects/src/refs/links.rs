//! The links of a process, and the order of the times at which they have something to do.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;

use super::due::LinkDue;
use super::link::Link;

/// The knowledge of a process about the others. Whoever may change a link notes it as touched, so that the next time at which one of all
/// is due costs as much as the links that were touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    links: IdMap<Peer, Link>,
    /// The time that is noted for a link, if it has one.
    noted: IdMap<Peer, Duration>,
    due: IdSet<LinkDue>,
    /// The links whose noted time may be wrong.
    touched: IdSet<Peer>,
}

impl Links {
    pub(super) fn get(&self, peer: &Peer) -> Option<&Link> {
        self.links.get(peer)
    }

    pub(super) fn get_mut(&mut self, peer: &Peer) -> Option<&mut Link> {
        let link = self.links.get_mut(peer)?;
        self.touched.insert(*peer);
        Some(link)
    }

    /// The link to a peer, which is new if there was none.
    pub(super) fn or_default(&mut self, peer: Peer) -> &mut Link {
        self.touched.insert(peer);
        self.links.or_default(peer)
    }

    pub(super) fn remove(&mut self, peer: &Peer) {
        self.touched.insert(*peer);
        self.links.remove(peer);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Peer, &Link)> {
        self.links.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// The first time at which a link has something to do.
    pub(super) fn first_due(&self) -> Option<Duration> {
        let touched = self.touched.iter().filter_map(|peer| self.links.get(peer)?.due());
        let noted = self.due.iter().find(|next| !self.touched.contains(&next.peer));
        touched.chain(noted.map(|next| next.due)).min()
    }

    /// The peers whose links have something to do now, in their order.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Peer> {
        self.note_times();
        let due = self.due.iter().take_while(|next| next.due <= now);
        let mut peers: Vec<_> = due.map(|next| next.peer).collect();
        peers.sort_unstable();
        peers
    }

    /// Notes the times of the links that were touched.
    pub(super) fn note_times(&mut self) {
        for peer in std::mem::take(&mut self.touched).iter().copied() {
            let due = self.links.get(&peer).and_then(Link::due);
            let before = match due {
                Some(due) => self.noted.insert(peer, due),
                None => self.noted.remove(&peer),
            };
            if before == due {
                continue;
            }
            if let Some(due) = before {
                self.due.remove(&LinkDue { due, peer });
            }
            if let Some(due) = due {
                self.due.insert(LinkDue { due, peer });
            }
        }
    }
}

// The rest follows from the links.
impl PartialEq for Links {
    fn eq(&self, other: &Self) -> bool {
        self.links == other.links
    }
}

impl Eq for Links {}

impl Hash for Links {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.links.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use selvedge_cluster::peer::{Incarnation, ProcessId};

    use super::*;
    use crate::refs::mutant::Mutant;
    use crate::refs::{Fork, Message, RefId, RefSettings};

    fn peer(number: u8) -> Peer {
        Peer {
            process: ProcessId::new(u32::from(number) + 1).unwrap(),
            incarnation: Incarnation(1),
        }
    }

    fn question(number: u8) -> Message {
        let id = RefId {
            owner: peer(number),
            creator: peer(number),
            number: u64::from(number),
        };
        let fork = Fork::Asked(u64::from(number));
        Message::Release { id, fork }
    }

    proptest! {
        #[test]
        fn the_times_are_those_of_all_links(acts in vec((0_u8..6, 0_u8..4, 0_u8..3), 0..60), looks_each in 1_usize..5) {
            let (mut links, settings) = (Links::default(), RefSettings::default());
            for (step, (act, number, asked)) in acts.into_iter().enumerate() {
                let (now, to) = (Duration::from_millis(7 * step as u64), peer(number));
                match act {
                    0 => drop(links.or_default(to).post(now, question(asked), &settings)),
                    1 => links.or_default(to).ask(now, question(asked), &settings),
                    2 => drop(links.get_mut(&to).map(|link| link.settle(&question(asked)))),
                    3 => drop(links.get_mut(&to).map(|link| link.bundles(now, &settings, Mutant::None))),
                    4 => drop(links.get_mut(&to).map(|link| link.repeat(now, &settings))),
                    _ => links.remove(&to),
                }
                let all = |links: &Links| links.values().filter_map(Link::due).min();
                prop_assert_eq!(links.first_due(), all(&links));
                if step % looks_each == 0 {
                    let is_due = |link: &Link| link.due().is_some_and(|due| due <= now);
                    let due: Vec<_> = links.iter().filter(|(_, link)| is_due(link)).map(|(peer, _)| *peer).collect();
                    prop_assert_eq!(links.due(now), due);
                    prop_assert_eq!(links.first_due(), all(&links));
                }
            }
        }
    }
}
