//! The other ends of a channel between processes: who has them, and what happens when one dies.
//!
//! An end looks at the others' claims when it finds nothing to do, and has the process of each watched. Who takes an end
//! rings all bells, so a claim is seen by whoever is parked; who spins or tries looks until everybody is watched. When a
//! watched process ends with its end still claimed, the channel is poisoned in its name and all bells ring.

use std::sync::{Arc, OnceLock};

use crate::deaths::{NotWatched, Watch, watch};
use crate::doorbell::Doorbell;
use crate::error::{ChannelError, Culprit, End};
use crate::process::Process;
use crate::region::Region;
use crate::shared::{Claims, SharedSpec, poison};

/// Who else is to know that an end has died.
pub(super) type OnDeath = Arc<dyn Fn(End) + Send + Sync>;

/// What is needed to end a channel.
struct Reach {
    region: Region,
    claims: Claims,
    bells: Vec<Doorbell>,
    on_death: OnceLock<OnDeath>,
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach")
            .field("claims", &self.claims)
            .finish_non_exhaustive()
    }
}

impl Reach {
    /// Ends the channel in the name of `end`, if `process` still has it.
    fn died(&self, end: End, process: Process) {
        if self.claims.holder(end) == Some(process) {
            let culprit = Culprit {
                end,
                pid: process.pid,
            };
            // It was a channel when it was attached to.
            let _ = poison(&self.region, culprit);
            if let Some(on_death) = self.on_death.get() {
                on_death(end);
            }
        }
        self.ring_all();
    }

    fn ring_all(&self) {
        self.bells.iter().for_each(Doorbell::ring);
    }
}

/// Who has an end; with no watch where that is this process, or it is dead.
type Watched = (Process, Option<Watch>);

/// The other ends.
#[derive(Debug)]
pub(super) struct Peers {
    reach: Arc<Reach>,
    others: Vec<(End, Option<Watched>)>,
    /// Everybody has come: a claim is never taken by another, so there is nobody left to be watched.
    settled: bool,
}

impl Peers {
    /// The ends of the channel in `region` other than `own`; tells them that `own` is taken.
    pub(super) fn of(
        own: End,
        region: Region,
        spec: &SharedSpec,
        bells: Vec<Doorbell>,
    ) -> Result<Self, ChannelError> {
        let claims = Claims::of(region.clone(), spec)?;
        let ends = std::iter::once(End::Writer).chain((0..spec.readers).map(End::Reader));
        // Readers depend on the writer alone, the writer on every reader.
        let matters = |end: &End| *end != own && (own == End::Writer || *end == End::Writer);
        let others = ends.filter(matters).map(|end| (end, None)).collect();
        let reach = Arc::new(Reach {
            region,
            claims,
            bells,
            on_death: OnceLock::new(),
        });
        reach.ring_all();
        Ok(Peers {
            reach,
            others,
            settled: false,
        })
    }

    /// Has somebody else told of a death, before the ends are: once, before anybody is looked for.
    #[cfg(feature = "cuda")]
    pub(super) fn on_death(&self, told: OnDeath) {
        let _ = self.reach.on_death.set(told);
    }

    /// Has every process watched that has come meanwhile. A process that cannot be watched is not: then its death is
    /// noticed by the time-out alone.
    pub(super) fn look(&mut self) {
        for (end, watched) in &mut self.others {
            let holder = self.reach.claims.holder(*end);
            if holder == watched.as_ref().map(|(process, _)| *process) {
                continue;
            }
            *watched = None;
            let Some(process) = holder else { continue };
            if process == Process::own() {
                *watched = Some((process, None));
                continue;
            }
            let (reach, end) = (Arc::clone(&self.reach), *end);
            *watched = match watch(process, Arc::new(move || reach.died(end, process))) {
                Ok(watch) => Some((process, Some(watch))),
                Err(NotWatched::Dead) => {
                    self.reach.died(end, process);
                    Some((process, None))
                }
                Err(NotWatched::System) => None,
            };
        }
        self.settled = self.others.iter().all(|(_, watched)| watched.is_some());
    }

    /// Watches the peers that have come since the last look. One branch once everybody is watched, for a death is told by
    /// who watches; before that a load for each other end, whose word nobody writes to meanwhile.
    #[inline]
    pub(super) fn look_for_new(&mut self) {
        if !self.settled {
            self.look();
        }
    }

    /// Looks for peers that have ended, told of or not; ends the channel in the name of the first.
    pub(super) fn find_dead(&mut self) -> bool {
        let ended = self.others.iter().find_map(|(end, _)| {
            let holder = self.reach.claims.holder(*end)?;
            (!holder.is_current()).then_some((*end, holder))
        });
        if let Some((end, process)) = ended {
            self.reach.died(end, process);
        }
        ended.is_some()
    }

    /// Who is there, for people.
    pub(super) fn describe(&self) -> String {
        let claims = &self.reach.claims;
        let of = |(end, _): &(End, _)| match (claims.holder(*end), claims.passed(*end)) {
            (Some(process), None) => format!("{end} is process {}", process.pid),
            (Some(process), Some(passed)) => {
                format!("{end} is process {}, at message {passed}", process.pid)
            }
            (None, _) => format!("nobody has {end}"),
        };
        self.others.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}
