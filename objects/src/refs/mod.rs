//! The reference count: who holds which object, and when an object is freed.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/objects/src/refs) of this folder has the protocol, its
//! invariants `REF-1` to `REF-9`, and the models that check them. The algorithm is reference listing, as in the
//! Network Objects of Birrell, Nelson, Owicki and Wobber (1993): the owner lists the processes that hold a reference,
//! and a process that passes a reference holds its own until the receiver is listed.
//!
//! [`Refs`] is the table of one process. Events go in, actions come out; the table reads no clock and sends nothing.
//!
//! ```
//! use std::time::Duration;
//! use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
//! use selvedge_objects::refs::{Action, Event, RefSettings, Refs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let peer = |number| ProcessId::new(number).map(|process| Peer { process, incarnation: Incarnation(1) });
//! let (owner, user) = (peer(1).ok_or("zero")?, peer(2).ok_or("zero")?);
//! let (mut here, mut there) = (Refs::new(owner, RefSettings::default()), Refs::new(user, RefSettings::default()));
//! let now = Duration::ZERO;
//!
//! let id = here.create();                             // an object, and a handle of it
//! let parcel = here.pass(id, user)?;                  // goes along with a call
//! there.step(now, Event::Arrived { from: owner, call: 1, parcels: vec![parcel] });
//! assert!(here.step(now, Event::Dropped(id)).is_empty());    // the user is listed
//!
//! there.step(now, Event::Dropped(id));
//! for action in there.step(now, Event::Flush(owner)) {
//!     if let Action::Send { bundle, .. } = action {
//!         assert_eq!(here.step(now, Event::Heard { from: user, bundle }), [Action::Free(id)]);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod event;
mod id;
mod leak;
mod listing;
mod message;
mod settings;
mod stats;

mod arrival;
mod due;
mod held;
mod link;
mod links;
mod mutant;
mod owned;

mod creation;
mod ending;
mod load;

#[cfg(test)]
mod model;

use std::time::Duration;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::last_lives::LastLives;
use selvedge_cluster::peer::Peer;

pub use error::RefError;
pub use event::{Action, Event};
pub use id::{Fork, RefId};
pub use leak::Leak;
pub use listing::ListedRef;
pub use message::{Bundle, Message, Parcel, REFERENCES};
pub use settings::RefSettings;
pub use stats::{RefStats, RefStatus};

use arrival::Waiting;
use due::Creation;
use ending::Ending;
use held::{Held, Stage};
use links::Links;
use mutant::Mutant;
use owned::{Cell, Owned};

/// The references of one process: to objects of its own and to those of others.
///
/// All times are durations since any fixed moment; they must not go backwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refs {
    me: Peer,
    settings: RefSettings,
    owned: IdMap<RefId, Owned>,
    /// The objects here that were heard of before their creator's call.
    unborn: IdSet<RefId>,
    held: IdMap<RefId, Held>,
    links: Links,
    /// The incarnations that are dead.
    buried: LastLives,
    /// Calls that wait for their references.
    calls: IdMap<u64, Waiting>,
    /// Results that are to be kept elsewhere and are not confirmed, by the time until which they should be.
    creations: IdSet<Creation>,
    /// The shutdown, once it has begun.
    ending: Option<Ending>,
    /// The number of objects created here.
    created: u64,
    /// The number of forks made here.
    forks: u64,
    /// The processes whose bundles go at the end of the step that is being made.
    hurried: IdSet<Peer>,
    /// The actions of the step that is being made.
    actions: Vec<Action>,
    mutant: Mutant,
}

impl Refs {
    /// The table of a process that holds nothing yet.
    pub fn new(me: Peer, settings: RefSettings) -> Self {
        Refs {
            me,
            settings,
            owned: IdMap::new(),
            unborn: IdSet::new(),
            held: IdMap::new(),
            links: Links::default(),
            buried: LastLives::default(),
            calls: IdMap::new(),
            creations: IdSet::new(),
            ending: None,
            created: 0,
            forks: 0,
            hurried: IdSet::new(),
            actions: Vec::new(),
            mutant: Mutant::None,
        }
    }

    /// Creates an object here, with one handle. No other process hears of it.
    pub fn create(&mut self) -> RefId {
        self.created += 1;
        let id = RefId {
            owner: self.me,
            creator: self.me,
            number: self.created,
        };
        let mut owned = Owned::new(Cell::Empty);
        owned.handles = 1;
        self.owned.insert(id, owned);
        id
    }

    /// Has the result of a call kept by `owner`: names it, with one handle here, before the owner has heard of it. The
    /// parcel goes along with the call.
    ///
    /// # Errors
    /// [`RefError::ToItself`]: use [`Refs::create`]. [`RefError::Dead`], [`RefError::TooMany`], [`RefError::Ending`].
    pub fn keep(&mut self, now: Duration, owner: Peer) -> Result<Parcel, RefError> {
        self.check_receiver(owner)?;
        let link = self.links.or_default(owner);
        let number = link.register();
        let id = RefId {
            owner,
            creator: self.me,
            number,
        };
        // The call is the first question; later ones find out whether its answer was lost.
        link.ask(now, Message::Fork { id, number }, &self.settings);
        let mut held = Held::new(Stage::Pending(number));
        held.handles = 1;
        held.due = self.expect_confirmation(now, id);
        self.charge(owner);
        self.held.insert(id, held);
        Ok(Parcel::Keep { id })
    }

    /// Passes a reference, of which a handle is held here, to another process. The parcel goes along with a call.
    ///
    /// # Errors
    /// [`RefError::ToItself`], [`RefError::Dead`], [`RefError::NotHeld`], [`RefError::Lost`],
    /// [`RefError::CreateTimedOut`], [`RefError::TooMany`], [`RefError::Ending`].
    pub fn pass(&mut self, id: RefId, to: Peer) -> Result<Parcel, RefError> {
        self.check_receiver(to)?;
        self.check(id)?;
        self.forks += 1;
        let fork = self.forks;
        if id.owner == self.me {
            self.list(id, to, Fork::Given(fork));
            return Ok(Parcel::Given { id, fork });
        }
        if let Some(held) = self.held.get_mut(&id)
            && (self.mutant != Mutant::NoPhantom || to != id.owner)
        {
            held.children.insert(fork, to);
            self.charge(to);
        }
        Ok(Parcel::Lent { id, fork })
    }

    /// Whether a reference can be passed, and its value asked for.
    ///
    /// # Errors
    /// [`RefError::NotHeld`], [`RefError::Lost`], [`RefError::CreateTimedOut`].
    pub fn check(&self, id: RefId) -> Result<(), RefError> {
        if id.owner == self.me {
            let owned = self.owned.get(&id).filter(|owned| owned.handles > 0);
            return owned.map(|_| ()).ok_or(RefError::NotHeld(id));
        }
        let held = self.held.get(&id).filter(|held| held.handles > 0);
        match held.ok_or(RefError::NotHeld(id))? {
            held if held.stage == Stage::Lost => Err(RefError::Lost(id)),
            held if held.is_late() => Err(RefError::CreateTimedOut(id)),
            _ => Ok(()),
        }
    }

    /// Takes note of an event. Returns what has to be done about it.
    ///
    /// Messages that no lawful process sends have no effect.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        match event {
            Event::Arrived { from, call, parcels } => self.arrived(now, from, call, parcels),
            Event::Heard { from, bundle } => self.heard(now, from, bundle),
            Event::Discarded(_) if self.mutant == Mutant::ForgetsParcels => {}
            Event::Dropped(id) | Event::Discarded(id) if id.owner == self.me => self.drop_owned(id),
            Event::Dropped(id) | Event::Discarded(id) => self.drop_held(now, id),
            Event::NotSent { to, parcel } => self.not_sent(now, to, parcel),
            Event::Fetch { from, question, id } => self.fetch(from, question, id),
            Event::Flush(to) => self.flush(now, to),
            Event::Tick => self.tick(now),
            Event::Dead(peer) => self.dead(now, peer),
            Event::Unknown(peer) => self.forget(now, peer),
            Event::End { deadline } => self.end(now, deadline),
        }
        for to in std::mem::take(&mut self.hurried) {
            self.flush(now, to);
        }
        self.look_for_the_end(now);
        self.links.note_times();
        std::mem::take(&mut self.actions)
    }

    /// The next moment at which an [`Event::Tick`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let creation = self.creations.first().map(|first| first.due);
        let end = self.ending.as_ref().and_then(Ending::due);
        let links = self.links.first_due();
        links.into_iter().chain(creation).chain(end).min()
    }

    fn check_receiver(&self, peer: Peer) -> Result<(), RefError> {
        match peer {
            _ if peer == self.me => Err(RefError::ToItself(peer)),
            _ if self.is_buried(peer) => Err(RefError::Dead(peer)),
            _ if self.ending.is_some() => Err(RefError::Ending(self.me)),
            _ => self.check_room(peer, 1),
        }
    }

    /// Whether a process is dead, or was declared dead: nothing of it is heard any more.
    pub fn is_buried(&self, peer: Peer) -> bool {
        self.buried.has(peer)
    }

    fn heard(&mut self, now: Duration, from: Peer, bundle: Bundle) {
        if self.is_buried(from) {
            return;
        }
        if self.links.or_default(from).raise(bundle.low) {
            self.fail_unborn(from);
        }
        for message in bundle.messages {
            match message {
                Message::Fork { id, number } => self.fork(now, from, id, number),
                Message::Forked { id, number, is_alive } => self.forked(now, from, id, number, is_alive),
                Message::Accept { id, fork } => self.accepted_by(now, from, id, fork),
                Message::Accepted { id, fork } => self.settle(from, &Message::Accept { id, fork }),
                Message::Release { id, fork } => self.release(now, from, id, fork),
                Message::Released { id, fork } => self.settle(from, &Message::Release { id, fork }),
            }
        }
    }

    fn settle(&mut self, from: Peer, question: &Message) {
        if let Some(link) = self.links.get_mut(&from) {
            link.settle(question);
        }
    }

    /// Tells a parent that its child is listed, or needs no parent.
    fn accept(&mut self, now: Duration, parent: Peer, id: RefId, fork: u64) {
        if !self.is_buried(parent) {
            self.post(now, parent, Message::Accept { id, fork });
        }
    }

    fn not_sent(&mut self, now: Duration, to: Peer, parcel: Parcel) {
        match parcel {
            Parcel::Given { id, fork } => self.take_back(to, id, Fork::Given(fork)),
            Parcel::Lent { id, fork } => self.remove_child(now, to, id, fork),
            Parcel::Keep { id } => {
                let number = id.number;
                if let Some(link) = self.links.get_mut(&to) {
                    link.settle(&Message::Fork { id, number });
                    link.answered(number);
                    // The owner learns from the low number that nothing will come.
                    let fork = Fork::Asked(number);
                    self.post(now, to, Message::Release { id, fork });
                }
                self.lose(now, id);
            }
        }
    }

    fn post(&mut self, now: Duration, to: Peer, message: Message) {
        if self.post_without_flush(now, to, message) {
            self.flush(now, to);
        }
    }

    /// Posts a message that a call waits for: its bundle goes at the end of the step, or soon after the one before.
    fn post_promptly(&mut self, now: Duration, to: Peer, message: Message) {
        self.post(now, to, message);
        if self.links.or_default(to).hurry(now, &self.settings) {
            self.hurried.insert(to);
        }
    }

    /// Puts a message into the next bundle. Returns whether the bundle is full.
    fn post_without_flush(&mut self, now: Duration, to: Peer, message: Message) -> bool {
        let link = self.links.or_default(to);
        let is_question = matches!(
            message,
            Message::Fork { .. } | Message::Accept { .. } | Message::Release { .. }
        );
        if is_question {
            link.ask(now, message, &self.settings);
        }
        link.post(now, message, &self.settings)
    }

    fn flush(&mut self, now: Duration, to: Peer) {
        self.release_leaving(now, to);
        if let Some(link) = self.links.get_mut(&to) {
            let bundles = link.bundles(now, &self.settings, self.mutant).into_iter();
            self.actions
                .extend(bundles.map(|bundle| Action::Send { to, bundle }));
        }
    }

    fn tick(&mut self, now: Duration) {
        self.mark_late(now);
        let due = self.links.due(now);
        for to in &due {
            if let Some(link) = self.links.get_mut(to) {
                link.repeat(now, &self.settings);
            }
        }
        for to in due {
            if self.links.get(&to).is_some_and(|link| link.is_flush_due(now)) {
                self.flush(now, to);
            }
        }
    }

    fn dead(&mut self, now: Duration, peer: Peer) {
        if peer == self.me || self.is_buried(peer) {
            return;
        }
        self.buried.note(peer);
        self.abandon(|waiting| waiting.from == peer);
        self.forget(now, peer);
    }

    /// Nothing more comes from a process: what waits for it ends, and what it holds is struck off.
    fn forget(&mut self, now: Duration, peer: Peer) {
        self.bury_user(peer);
        self.bury_owner_and_children(now, peer);
        self.links.remove(&peer);
    }
}
