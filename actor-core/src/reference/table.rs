//! The table of references: the count, what objects hold, and who waits for what.

use std::sync::Arc;

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Action, Leak, RefId, RefSettings, Refs};

use super::content::{Content, creator_lost};
use super::effect::Effect;
use super::fetch::Fetched;
use super::open_questions::OpenQuestions;
use super::waiting_letter::WaitingLetter;
use crate::promise::Promise;

/// The place of an object's content.
pub(super) enum ObjectCell {
    /// No content yet, and the promises of it.
    Empty(Vec<Promise<Content>>),
    Full(Content),
}

impl Default for ObjectCell {
    fn default() -> Self {
        ObjectCell::Empty(Vec::new())
    }
}

/// The table of references, without its lock.
pub(super) struct ReferenceState {
    pub(super) refs: Refs,
    pub(super) cells: IdMap<RefId, ObjectCell>,
    /// Questions to other processes.
    pub(super) questions: OpenQuestions,
    /// The promises to tell whether an owner has listed this process.
    pub(super) confirmations: IdMap<RefId, Vec<Promise<bool>>>,
    /// Letters that wait for their references.
    pub(super) calls: IdMap<u64, WaitingLetter>,
    /// The promise to tell what is left at the end.
    pub(super) ending: Option<Promise<Vec<Leak>>>,
    /// Whether the process ends: no more promises are taken.
    pub(super) is_stopped: bool,
    numbers: u64,
}

impl ReferenceState {
    pub(super) fn new(me: Peer) -> Self {
        ReferenceState {
            refs: Refs::new(me, RefSettings::default()),
            cells: IdMap::new(),
            questions: OpenQuestions::default(),
            confirmations: IdMap::new(),
            calls: IdMap::new(),
            ending: None,
            is_stopped: false,
            numbers: 0,
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn effects(&mut self, actions: Vec<Action>) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(actions.len());
        for action in actions {
            match action {
                Action::Send { to, bundle } => effects.push(Effect::Send { to, bundle }),
                Action::Run { call } => effects.extend(self.calls.remove(&call).map(Effect::Run)),
                Action::RefuseCall { call, error } => {
                    let refused = self.calls.remove(&call);
                    effects.extend(refused.map(|letter| Effect::RefuseLetter(letter, error)));
                }
                Action::Abandon { call } => effects.extend(self.calls.remove(&call).map(Effect::Abandon)),
                // The peer repeats its question, and is refused again until it has dropped something.
                Action::Overloaded { .. } => {}
                Action::TimedOut(id) => {
                    effects.extend(self.confirm(id, false));
                    let askers = self.questions.end_all_about(id);
                    effects.push(Effect::Tell(askers, Fetched::CreateTimedOut));
                }
                Action::Ended { leaks } => {
                    effects.extend(self.ending.take().map(|end| Effect::End(end, leaks)))
                }
                Action::Confirmed(id) => effects.extend(self.confirm(id, true)),
                Action::Lost(id) => {
                    effects.extend(self.confirm(id, false));
                    let askers = self.questions.end_all_about(id);
                    effects.push(Effect::Tell(askers, Fetched::OwnerLost));
                }
                Action::Failed(id) => effects.extend(self.settle(id, Err(Arc::new(creator_lost())))),
                Action::Answer { to, question, id } => {
                    if let Some(ObjectCell::Full(content)) = self.cells.get(&id) {
                        let content = content.clone();
                        effects.push(Effect::Answer {
                            to,
                            question,
                            id,
                            content,
                        });
                    }
                }
                Action::Refuse { to, question, .. } => effects.push(Effect::Refuse { to, question }),
                Action::RefuseFetch { to, question, error } => {
                    effects.push(Effect::RefuseFetch { to, question, error });
                }
                Action::Free(id) => {
                    effects.push(Effect::Freed(id));
                    match self.cells.remove(&id) {
                        Some(ObjectCell::Full(content)) => effects.push(Effect::Drop(content)),
                        Some(ObjectCell::Empty(waiting)) => effects.push(Effect::Forget(waiting)),
                        None => {}
                    }
                }
            }
        }
        effects
    }

    fn confirm(&mut self, id: RefId, is_listed: bool) -> Option<Effect> {
        let waiting = self.confirmations.remove(&id)?;
        Some(Effect::Confirm(waiting, is_listed))
    }

    /// Takes the promises of contents that are not there yet.
    pub(super) fn waiting(&mut self) -> Vec<Promise<Content>> {
        let waiting = self.cells.values_mut().filter_map(|cell| match cell {
            ObjectCell::Empty(waiting) => Some(std::mem::take(waiting)),
            ObjectCell::Full(_) => None,
        });
        waiting.flatten().collect()
    }

    /// Puts the content into its cell.
    pub(super) fn settle(&mut self, id: RefId, content: Content) -> Option<Effect> {
        let cell = self.cells.or_default(id);
        match std::mem::replace(cell, ObjectCell::Full(content.clone())) {
            ObjectCell::Empty(waiting) => Some(Effect::Settle(waiting, content)),
            // A cell is filled once: the count has refused the second time already.
            full @ ObjectCell::Full(_) => {
                *cell = full;
                None
            }
        }
    }
}
