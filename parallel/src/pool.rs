//! Pools of workers.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{ChannelIter, RemoteChannel, RemoteChannelError, Runtime, Worker};
use serde::{Deserialize, Serialize};

use crate::error::PoolError;

/// The time that [`Pool::take`] waits for a worker.
pub(crate) const TAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The members of a pool by their process, with the handle of each that this process has added.
type Members = Arc<Mutex<IdMap<NonZeroU32, Option<Worker>>>>;

/// A set of workers, each of which does one piece of work at a time.
///
/// The free workers are in a remote channel, whose home is the process that made the pool. A pool may be passed to remote functions:
/// all processes that have it take workers from one channel. A worker that was taken goes back when its [`PoolWorker`] is dropped,
/// and also when the process that has taken it dies.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pool {
    free: RemoteChannel<NonZeroU32>,
    /// The workers that this handle, or the one that it was cloned from, knows to be in the pool. The process that has added them keeps
    /// them alive.
    #[serde(with = "numbers")]
    members: Members,
    /// `None` in a pool that has come from another process.
    #[serde(skip)]
    runtime: Option<Runtime>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.lock();
        let members: Vec<_> = members.keys().collect();
        f.debug_struct("Pool")
            .field("members", &members)
            .finish_non_exhaustive()
    }
}

/// A worker that was taken from a [`Pool`]. The drop gives it back.
pub struct PoolWorker {
    process: ProcessId,
    /// Has taken the worker, and gives it back.
    taken: ChannelIter<NonZeroU32>,
    members: Members,
}

impl fmt::Debug for PoolWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoolWorker").field(&self.process).finish()
    }
}

impl PoolWorker {
    /// The number of the worker's process, for [`RemoteCall::on_process`](selvedge_core::RemoteCall::on_process).
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// Removes the worker from its pool. [`Pool::add`] adds it again.
    pub fn remove(mut self) {
        let number = NonZeroU32::new(self.process.number());
        let removed = number.and_then(|number| self.members.lock().remove(&number));
        drop(removed);
        self.taken.acknowledge();
    }
}

impl Pool {
    /// A pool of these workers.
    pub(crate) fn new(runtime: &Runtime, workers: &[Worker]) -> Result<Self, PoolError> {
        let pool = Pool::empty(runtime)?;
        workers.iter().try_for_each(|worker| pool.add(worker))?;
        Ok(pool)
    }

    /// A pool of this process alone.
    pub(crate) fn here(runtime: &Runtime) -> Result<Self, PoolError> {
        let pool = Pool::empty(runtime)?;
        pool.insert(runtime.process(), None)?;
        Ok(pool)
    }

    /// A pool of all workers; of the process that made the runtime if there is none.
    pub(crate) fn of_all(runtime: &Runtime) -> Result<Self, PoolError> {
        if runtime.process() == ProcessId::HEAD {
            // The handles keep the workers alive.
            let workers = runtime.workers();
            return match workers.is_empty() {
                true => Pool::here(runtime),
                false => Pool::new(runtime, &workers),
            };
        }
        let pool = Pool::empty(runtime)?;
        let processes = runtime.processes().into_iter().map(|name| name.process());
        let mut workers = processes.filter(|process| *process != ProcessId::HEAD);
        workers.try_for_each(|worker| pool.insert(worker, None))?;
        if pool.members.lock().is_empty() {
            pool.insert(ProcessId::HEAD, None)?;
        }
        Ok(pool)
    }

    fn empty(runtime: &Runtime) -> Result<Self, PoolError> {
        Ok(Pool {
            // More workers than this are a mistake, and their addition an error.
            free: runtime.channel(MEMBERS_MAX)?,
            members: Arc::default(),
            runtime: Some(runtime.clone()),
        })
    }

    /// Adds a worker that is not in the pool. The pool keeps it alive.
    ///
    /// # Errors
    /// [`PoolError::Channel`]; [`PoolError::OtherRuntime`].
    pub fn add(&self, worker: &Worker) -> Result<(), PoolError> {
        if self
            .runtime
            .as_ref()
            .is_some_and(|runtime| !worker.same_runtime(runtime))
        {
            let worker = worker.name().to_owned();
            return Err(PoolError::OtherRuntime { worker });
        }
        self.insert(worker.process(), Some(worker.clone()))
    }

    fn insert(&self, process: ProcessId, worker: Option<Worker>) -> Result<(), PoolError> {
        let Some(number) = NonZeroU32::new(process.number()) else {
            return Ok(());
        };
        let before = self.members.lock().insert(number, worker);
        if before.is_none()
            && let Err(error) = self.free.put_timeout(number, TAKE_TIMEOUT)
        {
            let removed = self.members.lock().remove(&number);
            drop(removed);
            return Err(error.error.into());
        }
        Ok(())
    }

    /// Takes a worker; waits up to one minute for one. Workers that are dead are skipped, and leave the pool.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn take(&self) -> Result<PoolWorker, PoolError> {
        self.take_timeout(TAKE_TIMEOUT)
    }

    /// Takes a worker like [`take`](Self::take), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn take_timeout(&self, timeout: Duration) -> Result<PoolWorker, PoolError> {
        let runtime = self.runtime()?;
        self.take_reached(self.is_home(&runtime), timeout, |process| {
            runtime.reaches(process)
        })
    }

    /// Takes a worker that this process reaches.
    fn take_reached(
        &self,
        is_home: bool,
        timeout: Duration,
        reaches: impl Fn(ProcessId) -> bool,
    ) -> Result<PoolWorker, PoolError> {
        let started = Instant::now();
        // Workers that others can reach go back when one is found.
        let mut unreached = Vec::new();
        loop {
            let mut taken = self.free.iter();
            if !any_lives(&self.members.lock(), &reaches) {
                return Err(self.none_lives());
            }
            let left = timeout.saturating_sub(started.elapsed());
            let number = match taken.next_timeout(left) {
                Some(Ok(number)) => number,
                Some(Err(RemoteChannelError::Timeout { waited, .. })) => {
                    return Err(self.none_free(waited, &reaches));
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(PoolError::NoWorker),
            };
            let process = ProcessId::new(number.get());
            let is_there = || process.filter(|process| reaches(*process));
            let mut found = is_there();
            if found.is_none() && is_home {
                let mut members = self.members.lock();
                // Once more under the lock: whoever adds a worker that has come back finds it among the members until here.
                found = is_there();
                if found.is_none() {
                    if !any_lives(&members, &reaches) {
                        // Goes back with the drop, to the next one that waits: so each of them learns that none lives.
                        drop(members);
                        return Err(self.none_lives());
                    }
                    let dead = members.remove(&number);
                    drop(members);
                    drop(dead);
                    taken.acknowledge();
                    continue;
                }
            }
            match found {
                Some(process) => {
                    let members = Arc::clone(&self.members);
                    return Ok(PoolWorker {
                        process,
                        taken,
                        members,
                    });
                }
                None => unreached.push(taken),
            }
        }
    }

    /// Waits until a worker is free, and at most `timeout`.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn ready_timeout(&self, timeout: Duration) -> Result<(), PoolError> {
        let runtime = self.runtime()?;
        let reaches = |process| runtime.reaches(process);
        match self.free.ready_timeout(timeout) {
            Ok(()) if !self.is_alive(&runtime) => Err(self.none_lives()),
            Err(RemoteChannelError::Timeout { waited, .. }) => Err(self.none_free(waited, &reaches)),
            other => Ok(other?),
        }
    }

    /// Whether a worker is free.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn is_ready(&self) -> Result<bool, PoolError> {
        Ok(self.is_offered()? && self.is_alive(&self.runtime()?))
    }

    /// Whether the channel of free workers has one, which may be dead.
    pub(crate) fn is_offered(&self) -> Result<bool, PoolError> {
        Ok(self.free.is_ready()?)
    }

    /// Whether a worker of the pool lives.
    pub(crate) fn is_alive(&self, runtime: &Runtime) -> bool {
        any_lives(&self.members.lock(), &|process| runtime.reaches(process))
    }

    /// The number of workers that live, whether they are free or not.
    ///
    /// # Errors
    /// [`PoolError::NoRuntime`].
    pub fn workers(&self) -> Result<usize, PoolError> {
        Ok(self.processes_that_live()?.len())
    }

    /// The workers that live, at least one.
    pub(crate) fn processes(&self) -> Result<Vec<ProcessId>, PoolError> {
        let living = self.processes_that_live()?;
        match living.is_empty() {
            true => Err(self.none_lives()),
            false => Ok(living),
        }
    }

    /// The error of a pool of which no worker lives: that of its channel, if the channel has ended, as with the runtime.
    fn none_lives(&self) -> PoolError {
        match self.free.is_ready() {
            Ok(_) => PoolError::NoWorker,
            Err(error) => error.into(),
        }
    }

    /// The error of a pool of which no worker was free for this time.
    fn none_free(&self, waited: Duration, reaches: &impl Fn(ProcessId) -> bool) -> PoolError {
        match self.living(reaches).count() {
            0 => self.none_lives(),
            workers => PoolError::Busy { workers, waited },
        }
    }

    fn processes_that_live(&self) -> Result<Vec<ProcessId>, PoolError> {
        let runtime = self.runtime()?;
        Ok(self.living(&|process| runtime.reaches(process)).collect())
    }

    /// The members that this process reaches.
    fn living(&self, reaches: &impl Fn(ProcessId) -> bool) -> impl Iterator<Item = ProcessId> {
        let members: Vec<_> = self.members.lock().keys().copied().collect();
        let processes = members
            .into_iter()
            .filter_map(|number| ProcessId::new(number.get()));
        processes.filter(|process| reaches(*process))
    }

    /// Whether this process has made the pool.
    pub(crate) fn is_home(&self, runtime: &Runtime) -> bool {
        self.free.home().process == runtime.process()
    }

    pub(crate) fn runtime(&self) -> Result<Runtime, PoolError> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.clone()),
            None => Ok(Runtime::current()?),
        }
    }
}

/// The number of workers of a pool at most.
const MEMBERS_MAX: usize = 65_536;

/// Whether one of these workers is reached: the first one is enough.
fn any_lives(members: &IdMap<NonZeroU32, Option<Worker>>, reaches: &impl Fn(ProcessId) -> bool) -> bool {
    let mut processes = members.keys().filter_map(|number| ProcessId::new(number.get()));
    processes.any(reaches)
}

/// The numbers of the members as plain data.
mod numbers {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(members: &Members, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers: Vec<NonZeroU32> = members.lock().keys().copied().collect();
        numbers.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        let numbers = Vec::<NonZeroU32>::deserialize(deserializer)?;
        let members = numbers.into_iter().map(|number| (number, None)).collect();
        Ok(Arc::new(Mutex::new(members)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_take_looks_at_no_more_workers_than_it_needs_and_counts_them_for_its_error() {
        let runtime = Runtime::new();
        let pool = Pool::here(&runtime).unwrap();
        for number in 2..=100 {
            pool.insert(ProcessId::new(number).unwrap(), None).unwrap();
        }
        let looks = Cell::new(0);
        let take = || {
            pool.take_reached(true, Duration::ZERO, |_| {
                looks.set(looks.get() + 1);
                true
            })
        };
        let taken: Vec<_> = (0..100).map(|_| take().unwrap()).collect();
        assert_eq!(
            looks.get(),
            200,
            "at one that lives, and at the one that is taken"
        );
        let busy = take().unwrap_err();
        assert!(matches!(busy, PoolError::Busy { workers: 100, .. }), "{busy}");
        drop(taken);
    }

    #[test]
    fn a_worker_that_comes_back_and_is_added_while_it_is_found_dead_stays() {
        let runtime = Runtime::new();
        let pool = Pool::here(&runtime).unwrap();
        let back = ProcessId::new(2).unwrap();
        // Other workers are busy, so that it is the next one.
        let busy = pool.take_reached(true, Duration::ZERO, |_| true).unwrap();
        pool.insert(back, None).unwrap();
        let is_dead = Cell::new(true);
        let taken = pool.take_reached(true, Duration::ZERO, |process| {
            let found_dead = process == back && is_dead.replace(false);
            if found_dead {
                // Now it comes back, and is added.
                pool.insert(back, None).unwrap();
            }
            !found_dead
        });
        assert_eq!(taken.unwrap().process(), back);
        drop(busy);
    }
}
