//! Whether the processes of the other ranks live. When one ends with its rank still taken, the group ends in its name.

use std::sync::Arc;

use selvedge_channels::deaths::{NotWatched, Watch, watch};
use selvedge_channels::process::Process;

use super::group::Shared;
use super::layout::End;

/// The processes that this rank has watched, by rank.
#[derive(Default)]
pub(super) struct Watches {
    by_rank: Vec<Option<(Process, Option<Watch>)>>,
    /// Every rank is somebody's: it is never taken by another, so there is nobody left to be watched.
    settled: bool,
}

impl Watches {
    /// Has every process watched that has taken a rank meanwhile. One that cannot be watched is not: then its death is noticed
    /// by the time-out alone. Once everybody is watched a look is a branch, so whoever waits may look as often as it likes.
    #[inline]
    pub(super) fn look(&mut self, shared: &Arc<Shared>) {
        if shared.watches && !self.settled {
            self.look_for_new(shared);
        }
    }

    fn look_for_new(&mut self, shared: &Arc<Shared>) {
        self.by_rank.resize_with(shared.ranks(), || None);
        for (rank, watched) in self.by_rank.iter_mut().enumerate() {
            if watched.is_some() {
                continue;
            }
            let Ok(Some((process, false))) = shared.words.holder(rank) else {
                continue;
            };
            if process == Process::own() {
                *watched = Some((process, None));
                continue;
            }
            let group = Arc::clone(shared);
            *watched = match watch(process, Arc::new(move || died(&group, rank, process))) {
                Ok(watch) => Some((process, Some(watch))),
                Err(NotWatched::Dead) => {
                    died(shared, rank, process);
                    Some((process, None))
                }
                Err(NotWatched::System) => None,
            };
        }
        self.settled = self.by_rank.iter().all(Option::is_some);
    }
}

fn died(shared: &Shared, rank: usize, process: Process) {
    match shared.words.holder(rank) {
        // Who has left first owes nothing.
        Ok(Some((_, true))) => shared.ring_all(),
        _ => shared.end(End::Died {
            rank,
            pid: process.pid,
        }),
    }
}
