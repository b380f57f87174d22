//! The test service of a worker: it obeys the driver's orders and reports what it has seen.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Service};
use selvedge_cluster::peer::Peer;
use selvedge_cluster::session::Outcome;
use serde::{Deserialize, Serialize};

use super::{SERVICE, letter, number};
use crate::body::Body;
use crate::hub::post::{Letter, Post, Receiver};
use crate::hub::{Hub, Role};

/// The service of orders.
pub(super) const ORDERS: Service = Service(901);

/// An order to a worker, or its answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Instruction {
    /// Sends numbered letters to a peer, from `first` on.
    Send { to: Peer, first: u64, count: u64 },
    /// Reports to the driver.
    Report,
    /// The report: letters by sender in the order of arrival, deaths with the number of fates, and the living peers.
    Reported {
        letters: Vec<(Peer, u64)>,
        deaths: Vec<(Peer, u64)>,
        peers: Vec<Peer>,
    },
    /// Sends the letter's body back under the service of the tests.
    Echo,
    /// Writes bytes that are no frame on the link to a peer.
    Garble { to: Peer },
}

impl Instruction {
    pub(super) fn letter(&self, body: impl Into<Body>) -> Letter {
        Letter {
            service: ORDERS,
            class: Class::Ordered,
            stream: 0,
            head: postcard::to_stdvec(self).unwrap().into(),
            body: body.into(),
        }
    }

    pub(super) fn of(letter: &Letter) -> Self {
        postcard::from_bytes(&letter.head).unwrap()
    }
}

#[derive(Default)]
struct Log {
    letters: Vec<(Peer, u64)>,
    deaths: Vec<(Peer, u64)>,
}

/// The receiver of orders, and of the letters of other puppets.
struct Puppet {
    hub: Weak<Hub>,
    log: Mutex<Log>,
}

pub(super) fn register(hub: &Arc<Hub>) {
    if matches!(hub.role, Role::Worker(_)) {
        let puppet = Arc::new(Puppet {
            hub: Arc::downgrade(hub),
            log: Mutex::default(),
        });
        hub.register(ORDERS, Arc::<Puppet>::clone(&puppet));
        hub.register(SERVICE, Arc::new(Letters(puppet)));
    }
}

impl Receiver for Puppet {
    fn received(&self, from: Peer, order: Letter) {
        let hub = self.hub.upgrade().unwrap();
        match Instruction::of(&order) {
            Instruction::Send { to, first, count } => {
                for number in first..first + count {
                    // A peer that is dead is reported as such.
                    let _ = hub.send(to, letter(number, "from a puppet"));
                }
            }
            Instruction::Report => {
                let log = std::mem::take(&mut *self.log.lock());
                let report = Instruction::Reported {
                    letters: log.letters,
                    deaths: log.deaths,
                    peers: hub.peers(),
                };
                hub.send(from, report.letter("")).unwrap();
            }
            Instruction::Echo => {
                hub.send(from, letter(0, order.body)).unwrap();
            }
            Instruction::Garble { to } => {
                let link = hub.link(to).unwrap();
                let garbage = std::io::IoSlice::new(&[0xa5; 100]);
                link.socket().unwrap().try_write(&[garbage]).unwrap();
            }
            reported @ Instruction::Reported { .. } => panic!("{reported:?}"),
        }
    }

    fn died(&self, peer: Peer, fates: &[(u64, Outcome)]) {
        self.log.lock().deaths.push((peer, fates.len() as u64));
    }
}

/// The receiver of the letters of other puppets.
struct Letters(Arc<Puppet>);

impl Receiver for Letters {
    fn received(&self, from: Peer, letter: Letter) {
        self.0.log.lock().letters.push((from, number(&letter)));
    }

    fn died(&self, _: Peer, _: &[(u64, Outcome)]) {}
}
