//! Liveness of the processes of the other ranks. When a process ends with its rank still taken, the group ends with
//! that rank as the cause.

use std::sync::Arc;

use selvedge_channels::memory::deaths::{NotWatched, Watch, watch};
use selvedge_channels::memory::process::Process;

use super::state::GroupState;
use super::words::GroupEnd;

/// The processes that this rank watches, by rank.
#[derive(Default)]
pub(crate) struct Watches {
    by_rank: Vec<Option<(Process, Option<Watch>)>>,
    /// True when all ranks have been taken and their processes are watched. No rank is taken twice, so none is left to watch.
    settled: bool,
}

impl Watches {
    /// Watches every process that has taken a rank since the last call. If a process cannot be watched, the next call
    /// tries again, and until then only the time-out notices its death. Once all processes are watched, a call is a
    /// single branch, so a waiter may call as often as it likes.
    #[inline]
    pub(crate) fn look(&mut self, group: &Arc<GroupState>) {
        if group.watches && !self.settled {
            self.look_for_new(group);
        }
    }

    fn look_for_new(&mut self, group: &Arc<GroupState>) {
        self.by_rank.resize_with(group.ranks(), || None);
        for (rank, watched) in self.by_rank.iter_mut().enumerate() {
            if watched.is_some() {
                continue;
            }
            let Ok(Some((process, false))) = group.words.holder(rank) else {
                continue;
            };
            if process == Process::own() {
                *watched = Some((process, None));
                continue;
            }
            let told = Arc::clone(group);
            *watched = match watch(process, Arc::new(move || died(&told, rank, process))) {
                Ok(watch) => Some((process, Some(watch))),
                Err(NotWatched::Dead) => {
                    died(group, rank, process);
                    Some((process, None))
                }
                Err(NotWatched::System) => None,
            };
        }
        self.settled = self.by_rank.iter().all(Option::is_some);
    }
}

fn died(group: &GroupState, rank: usize, process: Process) {
    match group.words.has_left(rank) {
        // A rank that left before its process ended has failed no one.
        Ok(true) => group.ring_all(),
        _ => group.end(GroupEnd::Died {
            rank,
            pid: process.pid,
        }),
    }
}
