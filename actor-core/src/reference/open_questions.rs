//! The questions of this process that wait for their answers.
//!
//! Whoever wants something that was asked already joins the open question, also if those who asked it have given up: the
//! owner sends a value once, however often and by however many threads it is waited for.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;

use super::fetch::{Fetched, Wish};
use crate::promise::Promise;

/// The promises to those who wait for the answer to a question.
pub(super) type Askers = Vec<Promise<Fetched>>;

/// A question to another process.
struct OpenQuestion {
    id: RefId,
    askers: Askers,
}

/// The questions to other processes, by their numbers.
#[derive(Default)]
pub(super) struct OpenQuestions {
    open: IdMap<u64, OpenQuestion>,
    /// The questions about each object.
    about: IdMap<RefId, Vec<u64>>,
    /// The questions for values.
    values: IdMap<RefId, u64>,
    /// The questions for a word that a value is made.
    words: IdMap<RefId, u64>,
}

impl OpenQuestions {
    /// The open questions that others may join, by their objects. The state of an object, and a value in a letter, are asked for anew each time.
    fn joinable(&mut self, wish: Wish) -> Option<&mut IdMap<RefId, u64>> {
        match wish {
            Wish::Value => Some(&mut self.values),
            Wish::Readiness => Some(&mut self.words),
            Wish::Letter | Wish::State => None,
        }
    }

    /// Joins an open question.
    ///
    /// # Errors
    /// The asker, if there is none.
    pub(super) fn join(
        &mut self,
        id: RefId,
        wish: Wish,
        asker: Promise<Fetched>,
    ) -> Result<(), Promise<Fetched>> {
        let open = self.joinable(wish).and_then(|open| open.get(&id).copied());
        let Some(question) = open.and_then(|open| self.open.get_mut(&open)) else {
            return Err(asker);
        };
        let askers = &mut question.askers;
        // Those who have given up leave nothing behind.
        if askers.len() == askers.capacity() {
            askers.retain(|asker| !asker.is_abandoned());
        }
        askers.push(asker);
        Ok(())
    }

    /// Takes note of a question.
    pub(super) fn insert(&mut self, question: u64, id: RefId, wish: Wish, asker: Promise<Fetched>) {
        if let Some(joinable) = self.joinable(wish) {
            joinable.insert(id, question);
        }
        self.about.or_default(id).push(question);
        let askers = vec![asker];
        self.open.insert(question, OpenQuestion { id, askers });
    }

    /// Ends a question, if it was asked of this process. Returns those who wait for its answer.
    pub(super) fn end(&mut self, owner: Peer, question: u64) -> Askers {
        let Some(id) = self.open.get(&question).map(|open| open.id) else {
            return Askers::new();
        };
        if id.owner != owner {
            return Askers::new();
        }
        for joinable in [&mut self.values, &mut self.words] {
            if joinable.get(&id) == Some(&question) {
                joinable.remove(&id);
            }
        }
        self.forget(id, question);
        let ended = self.open.remove(&question);
        ended.map(|ended| ended.askers).unwrap_or_default()
    }

    fn forget(&mut self, id: RefId, question: u64) {
        let Some(about) = self.about.get_mut(&id) else {
            return;
        };
        about.retain(|other| *other != question);
        if about.is_empty() {
            self.about.remove(&id);
        }
    }

    /// Ends all questions about an object. Returns those who wait for their answers.
    pub(super) fn end_all_about(&mut self, id: RefId) -> Askers {
        self.values.remove(&id);
        self.words.remove(&id);
        let about = self.about.remove(&id).unwrap_or_default();
        let ended = about.iter().filter_map(|question| self.open.remove(question));
        ended.flat_map(|ended| ended.askers).collect()
    }
}
