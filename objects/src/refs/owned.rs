//! The owner's side: objects that live here, and who is listed for them.

use std::time::Duration;

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;

use super::mutant::Mutant;
use super::{Action, Fork, Message, RefError, RefId, Refs};

/// The owner's entry of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owned {
    pub(super) cell: Cell,
    /// Handles here, with parcels that have arrived.
    pub(super) handles: u64,
    /// Listed users.
    pub(super) forks: IdMap<Peer, IdSet<Fork>>,
    /// Fetches without an answer.
    waiting: IdSet<(Peer, u64)>,
    /// Calls that wait for the object to exist.
    calls: IdSet<u64>,
}

/// The place of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    /// A user was heard of before the creator's call.
    Unborn,
    /// The function runs.
    Empty,
    /// The value, or the function's error, is there.
    Full,
    /// The creator's call will never come, or never run.
    Failed,
}

impl Owned {
    pub(super) fn new(cell: Cell) -> Self {
        Owned {
            cell,
            handles: 0,
            forks: IdMap::new(),
            waiting: IdSet::new(),
            calls: IdSet::new(),
        }
    }

    pub(super) fn lists(&self, user: Peer, fork: Fork) -> bool {
        self.forks.get(&user).is_some_and(|forks| forks.contains(&fork))
    }

    /// The number of fetches of a process that wait.
    #[cfg(test)]
    pub(super) fn fetches_of(&self, asker: Peer) -> usize {
        self.waiting.iter().filter(|(it, _)| *it == asker).count()
    }

    /// Lists a registration. Returns whether that is news.
    fn list(&mut self, user: Peer, fork: Fork) -> bool {
        self.forks.or_default(user).insert(fork)
    }

    /// Strikes a registration off. Returns whether it was listed.
    fn strike(&mut self, user: Peer, fork: Fork) -> bool {
        let Some(forks) = self.forks.get_mut(&user) else {
            return false;
        };
        let was_listed = forks.remove(&fork);
        if forks.is_empty() {
            self.forks.remove(&user);
        }
        was_listed
    }
}

impl Refs {
    /// Sets the value of an object here, or the error in its place: when its function has ended, or by whoever sets it
    /// first.
    ///
    /// # Errors
    /// [`RefError::AlreadySet`]: a value is set once. [`RefError::Freed`]: all have dropped it while the function ran.
    pub fn fill(&mut self, id: RefId) -> Result<Vec<Action>, RefError> {
        let owned = self.owned.get_mut(&id).ok_or(RefError::Freed(id))?;
        if matches!(owned.cell, Cell::Full | Cell::Failed) {
            return Err(RefError::AlreadySet(id));
        }
        owned.cell = Cell::Full;
        if self.mutant == Mutant::ListsCreatorLate {
            self.list(id, id.creator, Fork::Asked(id.number));
        }
        self.answer(id);
        Ok(std::mem::take(&mut self.actions))
    }

    /// The value of an object here is lost: another one, or a failure, may be set in its place. Returns false if there is no value.
    pub fn empty(&mut self, id: RefId) -> bool {
        let owned = self.owned.get_mut(&id);
        let Some(owned) = owned.filter(|owned| owned.cell == Cell::Full) else {
            return false;
        };
        owned.cell = Cell::Empty;
        true
    }

    /// Takes a handle on an object here. One that was freed is there again, without a value, also if it has got an error since, because
    /// a reference to it came home; returns whether it was. Its name stays unique: it is given to nothing else. Nothing happens to
    /// the reference of another owner.
    pub fn hold_again(&mut self, id: RefId) -> bool {
        if id.owner != self.me {
            return false;
        }
        let mut was_freed = !self.owned.contains_key(&id);
        let owned = self.owned.get_or_insert_with(id, || Owned::new(Cell::Empty));
        owned.handles += 1;
        if owned.cell == Cell::Failed && self.mutant != Mutant::StaysFailed {
            owned.cell = Cell::Empty;
            was_freed = true;
        }
        was_freed
    }

    /// Creates the object of a call: its cell and the creator's registration in one step, before the function runs. Returns false if
    /// no lawful process asks for it.
    pub(super) fn create_kept(&mut self, now: Duration, from: Peer, id: RefId) -> bool {
        let is_past = self.links.get(&from).is_some_and(|link| link.is_past(id.number));
        if id.owner != self.me || id.creator != from || is_past {
            return false;
        }
        let owned = self.owned.get_or_insert_with(id, || Owned::new(Cell::Unborn));
        if owned.cell == Cell::Unborn {
            owned.cell = Cell::Empty;
        }
        if self.mutant != Mutant::ListsCreatorLate {
            self.list(id, from, Fork::Asked(id.number));
        }
        self.unborn.remove(&id);
        let is_alive = true;
        let number = id.number;
        self.post(now, from, Message::Forked { id, number, is_alive });
        self.resume_calls_of_owned(id);
        true
    }

    /// The call that was to make an object here will never run.
    pub(super) fn fail_kept(&mut self, id: RefId) {
        // Somebody else may have set a value.
        let is_empty = self.owned.get(&id).is_some_and(|owned| owned.cell == Cell::Empty);
        if is_empty && self.mutant != Mutant::ForgetsKept {
            self.fail(id);
        }
    }

    /// Lists a registration for an object that has an entry.
    pub(super) fn list(&mut self, id: RefId, user: Peer, fork: Fork) {
        if let Some(owned) = self.owned.get_mut(&id)
            && owned.list(user, fork)
        {
            self.charge(user);
        }
    }

    /// Strikes a registration off. Returns whether it was listed.
    fn strike(&mut self, id: RefId, user: Peer, fork: Fork) -> bool {
        let owned = self.owned.get_mut(&id);
        let was_listed = owned.is_some_and(|owned| owned.strike(user, fork));
        self.credit(user, usize::from(was_listed));
        was_listed
    }

    /// The object of a call that is refused will never be created; its creator is told so.
    pub(super) fn refuse_kept(&mut self, now: Duration, from: Peer, id: RefId) {
        if id.owner != self.me || id.creator != from {
            return;
        }
        // Copies of the creator's question get the answer again.
        self.links.or_default(from).strike(id.number);
        let (number, is_alive) = (id.number, false);
        self.post(now, from, Message::Forked { id, number, is_alive });
        self.fail_unborn(from);
    }

    /// A user asks to be listed.
    pub(super) fn fork(&mut self, now: Duration, from: Peer, id: RefId, number: u64) {
        if id.owner != self.me {
            return;
        }
        let fork = Fork::Asked(number);
        let is_listed = self.owned.get(&id).is_some_and(|owned| owned.lists(from, fork));
        let mut is_alive = true;
        if !is_listed {
            let link = self.links.or_default(from);
            let remembers = self.mutant != Mutant::NoTombstones;
            let was_struck = remembers && link.is_past(number);
            let is_own_call = id.creator == from && id.number == number;
            // A creator's own question is answered by its call, which is on its way; an old one has had its answer.
            if is_own_call && !was_struck || remembers && link.is_old(number) {
                return;
            }
            is_alive = !was_struck && !self.is_gone(id);
            if !was_struck && !self.has_room(from) {
                return;
            }
            if is_alive {
                self.expect_birth(id);
                self.list(id, from, fork);
            } else if self.mutant != Mutant::ForgetsRefusals {
                // The object may get a new entry, to hold an error; late copies of this question must not be listed there.
                self.links.or_default(from).strike(number);
            }
        }
        self.post_promptly(now, from, Message::Forked { id, number, is_alive });
    }

    /// Whether a user that asks to be listed has come too late.
    fn is_gone(&self, id: RefId) -> bool {
        self.mutant != Mutant::ListsFreed && !self.owned.contains_key(&id) && self.was_freed(id)
    }

    /// A user strikes itself off.
    pub(super) fn release(&mut self, now: Duration, from: Peer, id: RefId, fork: Fork) {
        if id.owner != self.me {
            return;
        }
        let was_listed = self.strike(id, from, fork);
        if let (true, Fork::Asked(number)) = (was_listed, fork) {
            self.links.or_default(from).strike(number);
        }
        self.post(now, from, Message::Released { id, fork });
        self.free_if_unused(id);
    }

    /// A reference has come home: the parcel holds the object itself. Returns whether the call has to wait.
    pub(super) fn come_home(&mut self, now: Duration, from: Peer, id: RefId, fork: u64, call: u64) -> bool {
        if !self.owned.contains_key(&id) {
            self.expect_birth(id);
            if self.was_freed(id) {
                self.fail(id);
            }
        }
        self.accept(now, from, id, fork);
        let Some(owned) = self.owned.get_mut(&id) else {
            return false;
        };
        owned.handles += 1;
        let waits = owned.cell == Cell::Unborn && self.mutant != Mutant::RunsEarly;
        waits && owned.calls.insert(call)
    }

    pub(super) fn fetch(&mut self, from: Peer, question: u64, id: RefId) {
        if id.owner != self.me || self.is_buried(from) {
            return;
        }
        let is_gone = !self.owned.contains_key(&id) && self.was_freed(id);
        if is_gone || self.ending.is_some() {
            let to = from;
            return self.actions.push(Action::Refuse { to, question, id });
        }
        if let Err(error) = self.check_room(from, 1) {
            let to = from;
            return self.actions.push(Action::RefuseFetch { to, question, error });
        }
        if self.expect_birth(id).waiting.insert((from, question)) {
            self.charge(from);
        }
        self.answer(id);
    }

    /// The entry of an object, made now if its creator's call is still to come.
    fn expect_birth(&mut self, id: RefId) -> &mut Owned {
        self.owned.get_or_insert_with(id, || {
            self.unborn.insert(id);
            Owned::new(Cell::Unborn)
        })
    }

    /// Whether an object without an entry existed once: else its creator's call is still to come.
    fn was_freed(&self, id: RefId) -> bool {
        let is_past = |link: &super::link::Link| link.is_past(id.number);
        id.creator == self.me
            || self.is_buried(id.creator)
            || self.links.get(&id.creator).is_some_and(is_past)
    }

    /// The creator is gone, and its call will never come, or never run.
    fn fail(&mut self, id: RefId) {
        self.unborn.remove(&id);
        if let Some(owned) = self.owned.get_mut(&id) {
            owned.cell = Cell::Failed;
            self.actions.push(Action::Failed(id));
            self.answer(id);
            self.resume_calls_of_owned(id);
        }
    }

    /// Fails the objects that this creator has promised and will not create.
    pub(super) fn fail_unborn(&mut self, creator: Peer) {
        self.fail_all(|refs, id| id.creator == creator && refs.was_freed(id));
    }

    fn fail_all(&mut self, is_hopeless: impl Fn(&Self, RefId) -> bool) {
        if self.mutant == Mutant::AwaitsTheDead {
            return;
        }
        let hopeless = self.unborn.iter().filter(|id| is_hopeless(self, **id));
        for id in hopeless.copied().collect::<Vec<_>>() {
            self.fail(id);
            self.free_if_unused(id);
        }
    }

    fn answer(&mut self, id: RefId) {
        if let Some(owned) = self.owned.get_mut(&id)
            && matches!(owned.cell, Cell::Full | Cell::Failed)
        {
            for (to, question) in std::mem::take(&mut owned.waiting) {
                self.credit(to, 1);
                self.actions.push(Action::Answer { to, question, id });
            }
        }
    }

    fn resume_calls_of_owned(&mut self, id: RefId) {
        let calls = self
            .owned
            .get_mut(&id)
            .map(|owned| std::mem::take(&mut owned.calls));
        self.resume(calls.unwrap_or_default());
    }

    /// Undoes what was noted for a user that has never been told.
    pub(super) fn take_back(&mut self, user: Peer, id: RefId, fork: Fork) {
        self.strike(id, user, fork);
        self.free_if_unused(id);
    }

    pub(super) fn drop_owned(&mut self, id: RefId) {
        if let Some(owned) = self.owned.get_mut(&id) {
            owned.handles = owned.handles.saturating_sub(1);
        }
        self.free_if_unused(id);
    }

    pub(super) fn free_if_unused(&mut self, id: RefId) {
        let is_unused = |it: &Owned| {
            let is_awaited = it.cell == Cell::Unborn && !it.waiting.is_empty();
            it.handles == 0 && it.forks.is_empty() && !is_awaited
        };
        if !self.owned.get(&id).is_some_and(is_unused) {
            return;
        }
        if let Some(owned) = self.owned.remove(&id) {
            self.unborn.remove(&id);
            self.refuse_fetches(id, owned.waiting);
            if owned.cell != Cell::Unborn {
                self.actions.push(Action::Free(id));
            }
            self.resume(owned.calls); // they have dropped what they waited for
        }
    }

    fn refuse_fetches(&mut self, id: RefId, waiting: IdSet<(Peer, u64)>) {
        for (to, question) in waiting {
            self.credit(to, 1);
            self.actions.push(Action::Refuse { to, question, id });
        }
    }

    /// Drops the handles of an object here, because this process ends. The value goes to nobody any more.
    pub(super) fn let_go_of_owned(&mut self, id: RefId) {
        if let Some(owned) = self.owned.get_mut(&id) {
            owned.handles = 0;
            let waiting = std::mem::take(&mut owned.waiting);
            self.refuse_fetches(id, waiting);
        }
        self.free_if_unused(id);
    }

    /// A user has died: everything of it goes in one step.
    pub(super) fn bury_user(&mut self, dead: Peer) {
        if self.mutant == Mutant::KeepsTheDead {
            return;
        }
        for id in self.owned.keys().copied().collect::<Vec<_>>() {
            if let Some(owned) = self.owned.get_mut(&id) {
                let was_listed = owned.forks.remove(&dead).is_some();
                let waited = owned.waiting.len();
                owned.waiting.retain(|(asker, _)| *asker != dead);
                if was_listed || owned.waiting.len() < waited {
                    self.free_if_unused(id);
                }
            }
        }
        self.fail_all(|_, id| id.creator == dead);
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::{Incarnation, ProcessId};

    use super::super::{Event, Parcel, RefSettings};
    use super::*;

    fn dropped(refs: &mut Refs, id: RefId) -> Vec<Action> {
        refs.step(Duration::ZERO, Event::Dropped(id))
    }

    #[test]
    fn a_lost_value_is_set_once_more_and_a_freed_object_is_held_again_under_its_name() {
        let me = ProcessId::HEAD.first_life();
        let mut refs = Refs::new(me, RefSettings::default());
        let id = refs.create();
        assert!(!refs.empty(id), "there is no value yet");
        refs.fill(id).unwrap();
        assert_eq!(refs.fill(id), Err(RefError::AlreadySet(id)));
        assert!(refs.empty(id) && !refs.empty(id));
        refs.fill(id).unwrap();
        assert_eq!(dropped(&mut refs, id), [Action::Free(id)]);
        assert!(refs.hold_again(id), "it was freed");
        assert!(!refs.hold_again(id), "it is held");
        refs.fill(id).unwrap();
        assert_eq!(dropped(&mut refs, id), []);
        assert_eq!(dropped(&mut refs, id), [Action::Free(id)]);
        let foreign = RefId {
            owner: Peer {
                incarnation: Incarnation(2),
                ..me
            },
            ..id
        };
        assert!(!refs.hold_again(foreign) && !refs.empty(foreign));
    }

    #[test]
    fn an_object_that_was_freed_and_got_an_error_when_it_came_home_is_held_again_without_it() {
        let [me, dead, from] = [1, 2, 3].map(|number| ProcessId::new(number).unwrap().first_life());
        let mut refs = Refs::new(me, RefSettings::default());
        let id = refs.create();
        refs.fill(id).unwrap();
        refs.pass(id, dead).unwrap();
        assert_eq!(dropped(&mut refs, id), []);
        assert_eq!(refs.step(Duration::ZERO, Event::Dead(dead)), [Action::Free(id)]);
        // Of a child of the dead.
        let parcels = vec![Parcel::Lent { id, fork: 1 }];
        let came_home = refs.step(
            Duration::ZERO,
            Event::Arrived {
                from,
                call: 1,
                parcels,
            },
        );
        assert!(came_home.contains(&Action::Failed(id)), "{came_home:?}");
        assert!(refs.hold_again(id), "it was freed");
        assert!(!refs.hold_again(id), "it is held, and has no value yet");
        refs.fill(id).unwrap();
    }
}
