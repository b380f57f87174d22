//! Detection of process deaths: one thread sleeps in the kernel and calls back when a watched process ends. The thread
//! starts with the first watch and ends with the last.

use std::io;
use std::sync::Arc;

use crate::memory::process::Process;
pub use crate::platform::deaths::{Watch, watch};

/// The callback of a watch, called when the process has ended.
pub type DeathCallback = Arc<dyn Fn() + Send + Sync>;

/// The reason that a process cannot be watched.
#[derive(Debug)]
pub enum NotWatched {
    /// The process has already ended.
    Dead,
    /// A system call has failed, for example for lack of a descriptor or a thread.
    System(io::Error),
}

/// The processes that hold several claims, each with a key, and the watches on them.
#[derive(Debug)]
pub struct HolderWatches<K> {
    /// Each claim, and whether its holder is watched; no watch if it is this process or has died.
    holders: Vec<(K, Option<Option<Watch>>)>,
    /// True once every claim has a holder that is watched. No claim is taken twice, so none is left to watch.
    settled: bool,
    /// The error of a watch that the system refused at the last look.
    refusal: Option<io::Error>,
}

impl<K: Copy> HolderWatches<K> {
    /// Creates the watches for the claims with these keys.
    pub fn new(keys: impl IntoIterator<Item = K>) -> Self {
        HolderWatches {
            holders: keys.into_iter().map(|key| (key, None)).collect(),
            settled: false,
            refusal: None,
        }
    }

    /// Returns the keys of the claims.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.holders.iter().map(|(key, _)| *key)
    }

    /// Watches every process that has come since the last call. `holder` returns the process of a claim, and `told`
    /// makes the callback for its death. If a process cannot be watched, the next call tries again, and until then only
    /// a time limit reveals its death: [`take_refusal`](Self::take_refusal). Once all processes are watched, a call costs one branch.
    #[inline]
    pub fn look_for_new(
        &mut self,
        holder: impl Fn(K) -> Option<Process>,
        told: impl Fn(K, Process) -> DeathCallback,
    ) {
        if !self.settled {
            self.look(holder, told);
        }
    }

    /// The reason that the death of a process would not be told: the system refused to watch it at the last look.
    pub fn take_refusal(&mut self) -> Option<io::Error> {
        self.refusal.take()
    }

    fn look(&mut self, holder: impl Fn(K) -> Option<Process>, told: impl Fn(K, Process) -> DeathCallback) {
        self.refusal = None;
        for (key, watched) in &mut self.holders {
            if watched.is_some() {
                continue;
            }
            let Some(process) = holder(*key) else { continue };
            if process == Process::own() {
                *watched = Some(None);
                continue;
            }
            let told = told(*key, process);
            *watched = match watch(process, Arc::clone(&told)) {
                Ok(watch) => Some(Some(watch)),
                Err(NotWatched::Dead) => {
                    told();
                    Some(None)
                }
                Err(NotWatched::System(error)) => {
                    self.refusal = Some(error);
                    None
                }
            };
        }
        self.settled = self.holders.iter().all(|(_, watched)| watched.is_some());
    }
}
