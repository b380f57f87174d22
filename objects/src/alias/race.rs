//! Aliases of targets at other owners.
//!
//! Two owners may close a circle at the same time, each with one alias that is good by itself. So an alias whose chain leaves its
//! owner is *undecided* at first: a chase follows the chain, as the probes of Chandy, Misra and Haas (1983) follow those who wait. It
//! asks one owner after the other, and comes back in between, so that an owner that dies swallows no chase. If the chase ends at a reference without a target, the alias is decided. If it comes back, there is a
//! circle, and the highest of the undecided aliases on it gives way: the lower ones win. The others wait until that one has
//! been refused, and chase again.
//!
//! Of the aliases of a circle, one was noted last, and its chase began after that: it sees the whole circle, and does not end.
//! So no circle is decided (`ALIAS-T3`), whatever overtakes what.

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use super::error::AliasError;
use super::mutant::AliasMutant;
use super::table::{AliasTable, Target};
use crate::refs::RefId;

/// A message between the owners of references. Each arrives once; the order makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AliasMessage {
    /// Follows the chain of an undecided alias.
    Chase {
        /// The undecided alias.
        origin: RefId,
        /// The number of this chase among those of the alias.
        attempt: u32,
        /// The place that the chase has reached.
        at: RefId,
        /// The undecided aliases that it has passed.
        passed: Vec<RefId>,
    },
    /// The chase has ended, or goes on at another owner.
    Chased {
        /// The undecided alias.
        origin: RefId,
        /// The number of the chase.
        attempt: u32,
        /// The outcome.
        verdict: Verdict,
    },
    /// An alias that the chase of `origin` has passed was undecided then, and is not any more.
    Decided {
        /// The undecided alias.
        origin: RefId,
    },
}

/// The knowledge of an owner about a chase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The chain ends at a reference without a target.
    Clear,
    /// The chain comes back. This is the highest undecided alias on it.
    Circle(RefId),
    /// The chain leads into a circle of other undecided aliases, of which one will give way.
    Waits,
    /// The chain goes on at another owner.
    Leaves {
        /// The reference there.
        at: RefId,
        /// The undecided aliases so far.
        passed: Vec<RefId>,
    },
}

/// Something that the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RaceAction {
    /// Send a message to another owner.
    Send {
        /// The owner.
        to: Peer,
        /// The message.
        message: AliasMessage,
    },
    /// The alias stands for its target from now on.
    Made {
        /// The alias.
        alias: RefId,
    },
    /// The alias is refused, and may get a value or another target.
    Refused {
        /// The alias.
        alias: RefId,
        /// The reason.
        error: AliasError,
    },
}

/// An alias whose chase goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Undecided {
    target: RefId,
    attempt: u32,
    /// The aliases whose chases have passed here.
    passed: IdSet<RefId>,
}

/// The aliases of one owner whose targets may live at other owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AliasRace {
    table: AliasTable,
    undecided: IdMap<RefId, Undecided>,
    dead: IdSet<Peer>,
}

impl AliasRace {
    /// The aliases of the owner of this table.
    #[must_use]
    pub fn new(table: AliasTable) -> Self {
        AliasRace {
            table,
            undecided: IdMap::new(),
            dead: IdSet::new(),
        }
    }

    /// The aliases that are decided.
    #[must_use]
    pub fn table(&self) -> &AliasTable {
        &self.table
    }

    /// Adds a reference of which nothing was announced; false if the owner has it already.
    pub fn register(&mut self, id: RefId) -> bool {
        self.table.register(id)
    }

    /// A value was made under the reference: [`AliasTable::ready`].
    ///
    /// # Errors
    /// [`AliasError`]; `NotCanonical` also if it is to be an alias.
    pub fn ready(&mut self, id: RefId) -> Result<Vec<RefId>, AliasError> {
        match self.undecided.contains_key(&id) {
            true => Err(AliasError::NotCanonical(id)),
            false => self.table.ready(id),
        }
    }

    /// Whether no alias is undecided.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.undecided.is_empty()
    }

    /// Asks that `alias` stands for `target`. [`RaceAction::Made`] or [`RaceAction::Refused`] follows.
    ///
    /// # Errors
    /// [`AliasError`], if this owner alone sees that it cannot.
    pub fn claim(&mut self, alias: RefId, target: RefId) -> Result<Vec<RaceAction>, AliasError> {
        if self.undecided.contains_key(&alias) {
            return Err(AliasError::AlreadyAliased(alias));
        }
        self.table.check(alias, target)?;
        let undecided = Undecided {
            target,
            attempt: 0,
            passed: IdSet::new(),
        };
        self.undecided.insert(alias, undecided);
        let mut actions = Vec::new();
        if self.table.mutant == AliasMutant::DecidesEarly {
            self.made(alias, &mut actions);
            return Ok(actions);
        }
        self.chase(alias, &mut actions);
        Ok(actions)
    }

    /// A message of another owner has arrived.
    pub fn hear(&mut self, message: AliasMessage) -> Vec<RaceAction> {
        let mut actions = Vec::new();
        self.heard(message, &mut actions);
        actions
    }

    /// A process has died. It may have had a question of any chase of this owner, so each begins again.
    pub fn died(&mut self, peer: Peer) -> Vec<RaceAction> {
        self.dead.insert(peer);
        let mut actions = Vec::new();
        let undecided: Vec<RefId> = self.undecided.keys().copied().collect();
        undecided
            .into_iter()
            .for_each(|alias| self.chase(alias, &mut actions));
        actions
    }

    /// Begins the chase of an undecided alias, anew if one goes on.
    fn chase(&mut self, alias: RefId, actions: &mut Vec<RaceAction>) {
        if let Some(begun) = self.begun(alias) {
            self.heard(begun, actions);
        }
    }

    /// Performs messages for this owner, one after the other, and passes on the others.
    fn heard(&mut self, message: AliasMessage, actions: &mut Vec<RaceAction>) {
        let mut messages = vec![message];
        while let Some(message) = messages.pop() {
            let to = match &message {
                AliasMessage::Chase { at, .. } => at.owner,
                AliasMessage::Chased { origin, .. } | AliasMessage::Decided { origin } => origin.owner,
            };
            if to != self.table.me() {
                if !self.dead.contains(&to) {
                    actions.push(RaceAction::Send { to, message });
                }
                continue;
            }
            match message {
                AliasMessage::Chase {
                    origin,
                    attempt,
                    at,
                    passed,
                } => {
                    let verdict = self.follow(origin, at, passed);
                    messages.push(AliasMessage::Chased {
                        origin,
                        attempt,
                        verdict,
                    });
                }
                AliasMessage::Chased {
                    origin,
                    attempt,
                    verdict,
                } => {
                    let of = |undecided: &Undecided| undecided.attempt == attempt;
                    if self.undecided.get(&origin).is_some_and(of) {
                        messages.extend(self.judge(origin, verdict, actions));
                    }
                }
                AliasMessage::Decided { origin } => messages.extend(self.begun(origin)),
            }
        }
    }

    /// Follows a chase as far as the chain stays here.
    fn follow(&mut self, origin: RefId, mut at: RefId, mut passed: Vec<RefId>) -> Verdict {
        loop {
            if at == origin {
                return Verdict::Circle(passed.into_iter().fold(origin, RefId::max));
            }
            if passed.contains(&at) {
                return Verdict::Waits;
            }
            if at.owner != self.table.me() {
                return Verdict::Leaves { at, passed };
            }
            at = match (self.undecided.get_mut(&at), self.table.target(at)) {
                (Some(undecided), _) => {
                    undecided.passed.insert(origin);
                    passed.push(at);
                    undecided.target
                }
                (None, Some(Target::Alias(target))) => target,
                (None, _) => return Verdict::Clear,
            };
        }
    }

    /// The chase of an undecided alias has ended, or goes on.
    fn judge(&mut self, origin: RefId, verdict: Verdict, actions: &mut Vec<RaceAction>) -> Vec<AliasMessage> {
        let mutant = self.table.mutant;
        let gives_way = |highest: RefId| highest == origin || mutant == AliasMutant::BothGiveWay;
        match verdict {
            Verdict::Clear => self.made(origin, actions),
            Verdict::Leaves { at, .. } if self.dead.contains(&at.owner) => {
                let (alias, lost) = (origin, at.owner);
                self.refused(origin, AliasError::OwnerLost { alias, lost }, actions)
            }
            Verdict::Leaves { at, passed } => {
                let attempt = self
                    .undecided
                    .get(&origin)
                    .map_or(0, |undecided| undecided.attempt);
                vec![AliasMessage::Chase {
                    origin,
                    attempt,
                    at,
                    passed,
                }]
            }
            Verdict::Circle(_) if mutant == AliasMutant::NobodyGivesWay => self.made(origin, actions),
            Verdict::Circle(highest) if gives_way(highest) => {
                let target = self.undecided.get(&origin).map(|undecided| undecided.target);
                let alias = origin;
                let error = match target {
                    Some(target) => AliasError::Cycle { alias, target },
                    None => AliasError::Unknown(alias),
                };
                self.refused(origin, error, actions)
            }
            // One of those that the chase has passed gives way, and tells this one.
            Verdict::Circle(_) | Verdict::Waits => Vec::new(),
        }
    }

    fn made(&mut self, alias: RefId, actions: &mut Vec<RaceAction>) -> Vec<AliasMessage> {
        let Some(undecided) = self.undecided.remove(&alias) else {
            return Vec::new();
        };
        self.table.decide(alias, undecided.target);
        actions.push(RaceAction::Made { alias });
        self.told(undecided)
    }

    fn refused(
        &mut self,
        alias: RefId,
        error: AliasError,
        actions: &mut Vec<RaceAction>,
    ) -> Vec<AliasMessage> {
        let Some(undecided) = self.undecided.remove(&alias) else {
            return Vec::new();
        };
        actions.push(RaceAction::Refused { alias, error });
        self.told(undecided)
    }

    /// Tells those whose chases have passed an alias that it is decided.
    fn told(&self, undecided: Undecided) -> Vec<AliasMessage> {
        if self.table.mutant == AliasMutant::TellsNobody {
            return Vec::new();
        }
        let passed = undecided.passed.into_iter();
        passed.map(|origin| AliasMessage::Decided { origin }).collect()
    }

    /// The first message of a chase that begins, anew if one goes on; `None` if the alias is decided.
    fn begun(&mut self, origin: RefId) -> Option<AliasMessage> {
        let undecided = self.undecided.get_mut(&origin)?;
        undecided.attempt += 1;
        let (at, passed) = (undecided.target, Vec::new());
        Some(AliasMessage::Chased {
            origin,
            attempt: undecided.attempt,
            verdict: Verdict::Leaves { at, passed },
        })
    }
}
