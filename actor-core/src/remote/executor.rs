//! The threads that run remote functions which block: as many as the process has cores, or as it offers cpus if these are more;
//! started on demand, ended with the runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use selvedge_channels::dispose;

use crate::call::remote_error::RemoteError;
use crate::cores::core_count;
use crate::current::{NoBlocking, Place};
use crate::hub::delivering::is_delivering;
use crate::hub::lead::{Lead, Leading};
use crate::remote::places::{Limits, Need, Next, Refused, ThreadPlaces};
use crate::remote::refusals::RefusalThread;
use crate::remote::threads::Threads;

/// The number of functions of a process that may run at a time, whatever it offers.
const PLACES_MAX: usize = 1024;
/// The number of functions of a process that may wait by blocking at a time.
const BLOCKED_MAX: usize = 64;
/// The number of threads without a place that stay for the next function that waits: a thread costs more to start than most functions.
const SPARE_MAX: usize = 8;
/// The number of calls that may wait for a thread, and of those that may wait for arguments.
const QUEUED_MAX: usize = 1 << 20;

/// A piece of work for a thread.
pub(crate) trait Work: Sized + Send + 'static {
    /// Does the work, on a thread of the executor.
    fn run(self, executor: &Executor<Self>);

    /// The work will not be done.
    fn refuse(self, why: WorkRefusal);
}

/// The reason that work will not be done.
#[derive(Clone, Debug)]
pub(crate) enum WorkRefusal {
    /// The executor has stopped.
    Stopped,
    /// Too many pieces wait already.
    Full { limit: usize },
    /// The system refused a thread.
    NoThread(String),
}

impl From<WorkRefusal> for RemoteError {
    fn from(refusal: WorkRefusal) -> Self {
        match refusal {
            WorkRefusal::Stopped => RemoteError::Shutdown,
            WorkRefusal::Full { limit } => RemoteError::Overloaded { limit },
            WorkRefusal::NoThread(why) => RemoteError::NoThread(why),
        }
    }
}

/// The executor. Clones refer to the same one.
pub(crate) struct Executor<W>(Arc<SharedPlaces<W>>);

struct SharedPlaces<W> {
    places: Mutex<ThreadPlaces<W>>,
    /// The wait of idle threads.
    work: Condvar,
    /// The wait of spare threads.
    spare: Condvar,
    lead: Arc<Lead>,
    threads: Threads,
    /// Drops refused work for threads that must not run user code.
    refusals: RefusalThread,
    /// A further count for each call that waits for arguments.
    resting: Arc<()>,
}

/// The count of one call that waits for arguments, without a thread and without a place.
pub(crate) struct Resting(#[allow(dead_code, reason = "only its count matters")] Arc<()>);

impl<W> Clone for Executor<W> {
    fn clone(&self) -> Self {
        Executor(Arc::clone(&self.0))
    }
}

impl<W: Work> Executor<W> {
    pub(crate) fn new(threads: &Threads, lead: Arc<Lead>) -> Self {
        let limits = Limits {
            places: core_count(),
            blocked: BLOCKED_MAX,
            spare: SPARE_MAX,
            queued: QUEUED_MAX,
        };
        Executor(Arc::new(SharedPlaces {
            places: Mutex::new(ThreadPlaces::new(limits)),
            work: Condvar::new(),
            spare: Condvar::new(),
            lead,
            threads: threads.clone(),
            refusals: RefusalThread::new(threads),
            resting: Arc::default(),
        }))
    }

    /// Counts a call that waits for arguments, or refuses it.
    pub(crate) fn rest(&self) -> Result<Resting, WorkRefusal> {
        let limit = QUEUED_MAX;
        let resting = Arc::clone(&self.0.resting);
        match Arc::strong_count(&resting) {
            count if count > limit + 1 => Err(WorkRefusal::Full { limit }),
            _ => Ok(Resting(resting)),
        }
    }

    /// Has the work done, or refuses it.
    pub(crate) fn submit(&self, work: W) {
        let mut places = self.0.places.lock();
        let limit = places.limits().queued;
        let submitted = places.submit(work);
        drop(places);
        match submitted {
            Ok(need) => self.serve(need),
            Err((work, Refused::Stopped)) => self.refuse(work, WorkRefusal::Stopped),
            Err((work, Refused::Full)) => self.refuse(work, WorkRefusal::Full { limit }),
        }
    }

    /// Has as many functions run at a time as the process offers cpus, and no fewer than it has cores.
    pub(crate) fn set_cpus(&self, cpus: u32) {
        let cpus = usize::try_from(cpus).unwrap_or(PLACES_MAX);
        let places = cpus.min(PLACES_MAX).max(core_count());
        let need = self.0.places.lock().set_places(places);
        self.serve(need);
    }

    fn serve(&self, need: Need) {
        match need {
            Need::Nothing => {}
            Need::Wake => drop(self.0.work.notify_one()),
            Need::Rouse => drop(self.0.spare.notify_one()),
            Need::Nudge => self.0.lead.nudge(),
            Need::Thread => {
                let executor = self.clone();
                let started = self.0.threads.start("selvedge-remote", move || executor.live());
                if let Err(error) = started {
                    let instead = self.0.places.lock().not_started();
                    let why = WorkRefusal::NoThread(error.to_string());
                    match instead {
                        Ok(need) => self.serve(need),
                        Err(left) => left.into_iter().for_each(|work| self.refuse(work, why.clone())),
                    }
                }
            }
        }
    }

    /// The life of a thread.
    fn live(&self) {
        let mut places = self.0.places.lock();
        let mut next = places.started();
        loop {
            next = match next {
                Next::Run(work, need) => {
                    drop(places);
                    self.serve(need);
                    // A panic here is a bug of ours; it must not take the place with it.
                    dispose(catch_unwind(AssertUnwindSafe(|| work.run(self))));
                    places = self.0.places.lock();
                    places.done()
                }
                // The wait ends with new work and with the executor's end.
                Next::Wait => match self.0.lead.take() {
                    Some(leading) => self.lead(leading, &mut places),
                    None => {
                        self.0.work.wait(&mut places);
                        places.started()
                    }
                },
                Next::Spare => {
                    self.0.spare.wait(&mut places);
                    places.started()
                }
                Next::End => return,
            };
        }
    }

    /// Waits for work, and reads letters meanwhile.
    fn lead(&self, leading: Leading<'_>, places: &mut MutexGuard<'_, ThreadPlaces<W>>) -> Next<W> {
        places.lead();
        let arrivals = MutexGuard::unlocked(places, || leading.wait(None));
        places.looks();
        MutexGuard::unlocked(places, || {
            if let Some(arrivals) = arrivals {
                leading.read(arrivals, || !self.0.places.lock().has_news());
            }
            drop(leading);
        });
        places.started()
    }

    /// Whether [`stop`](Self::stop) was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.places.lock().is_stopped()
    }

    /// Ends the threads after their present work, and refuses all other work.
    pub(crate) fn stop(&self) {
        let left = self.0.places.lock().stop();
        self.0.work.notify_all();
        self.0.spare.notify_all();
        self.0.lead.nudge();
        left.into_iter()
            .for_each(|work| self.refuse(work, WorkRefusal::Stopped));
    }

    /// Refuses work. What the work holds is dropped, which may be user code.
    fn refuse(&self, work: W, why: WorkRefusal) {
        let refusal = RefusedWork(Some((work, why)));
        if is_delivering() {
            self.0.refusals.drop_there(refusal);
        }
    }

    /// Ends the thread that drops refused work, when nobody sends work any more.
    pub(crate) fn end_refusals(&self) {
        self.0.refusals.stop();
    }
}

/// Work that is refused by the drop, wherever that happens: whoever waits for it is told.
struct RefusedWork<W: Work>(Option<(W, WorkRefusal)>);

impl<W: Work> Drop for RefusedWork<W> {
    fn drop(&mut self) {
        if let Some((work, why)) = self.0.take() {
            work.refuse(why);
        }
    }
}

impl<W: Work> Place for Executor<W> {
    fn block(&self) -> Result<(), NoBlocking> {
        let mut places = self.0.places.lock();
        let limit = places.limits().blocked;
        let need = places.block().ok_or(NoBlocking::TooMany { limit })?;
        drop(places);
        self.serve(need);
        Ok(())
    }

    fn resume(&self) {
        self.0.places.lock().resume();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::hub::delivering::delivering;

    /// Work that tells which thread refuses it.
    struct TellsRefusal(mpsc::Sender<ThreadId>);

    impl Work for TellsRefusal {
        fn run(self, _: &Executor<Self>) {}

        fn refuse(self, _: WorkRefusal) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    /// Work that tells its thread, and waits without its place.
    struct GivesPlace {
        /// Opened by the test when the work behind has begun.
        gate: mpsc::Receiver<()>,
        begun: mpsc::Sender<ThreadId>,
        ended: mpsc::Sender<()>,
    }

    impl Work for GivesPlace {
        fn run(self, executor: &Executor<Self>) {
            self.begun.send(thread::current().id()).unwrap();
            executor.block().unwrap();
            self.gate.recv().unwrap();
            executor.resume();
            self.ended.send(()).unwrap();
        }

        fn refuse(self, _: WorkRefusal) {}
    }

    #[test]
    fn functions_that_wait_start_no_thread_once_there_are_enough() {
        let threads = Threads::default();
        let executor = Executor::new(&threads, Arc::default());
        let places = core_count();
        let (mut seen, mut functions) = (HashSet::new(), 0);
        for _ in 0..100 {
            // One function more than there are places waits at a time, as far as so many may wait.
            let (begun, begins) = mpsc::channel();
            let (ended, ends) = mpsc::channel();
            let open = |_| {
                let (gate, waits) = mpsc::channel();
                executor.submit(GivesPlace {
                    gate: waits,
                    begun: begun.clone(),
                    ended: ended.clone(),
                });
                seen.insert(begins.recv().unwrap());
                functions += 1;
                gate
            };
            let gates: Vec<_> = (0..=places.min(16)).map(open).collect();
            gates.iter().for_each(|gate| gate.send(()).unwrap());
            gates.iter().for_each(|_| ends.recv().unwrap());
        }
        // Those that have ended and do not look for work yet may be as many again.
        assert!(
            seen.len() <= 2 * (places + 1) + SPARE_MAX,
            "{} threads for {functions} functions",
            seen.len()
        );
        executor.stop();
        assert!(
            threads.wait_until(Instant::now() + Duration::from_secs(20)),
            "spare threads end too"
        );
    }

    #[test]
    fn no_thread_that_delivers_letters_refuses_work_itself_as_long_as_there_is_another() {
        let (threads, me) = (Threads::default(), thread::current().id());
        let executor = Executor::new(&threads, Arc::default());
        executor.stop();
        let (sender, refused) = mpsc::channel();
        executor.submit(TellsRefusal(sender.clone()));
        assert_eq!(refused.recv(), Ok(me));
        delivering(|| executor.submit(TellsRefusal(sender.clone())));
        assert_ne!(refused.recv(), Ok(me));
        executor.end_refusals();
        delivering(|| executor.submit(TellsRefusal(sender)));
        assert_eq!(refused.recv(), Ok(me), "whoever waits is told at the end too");
        assert!(
            threads.wait_until(Instant::now() + Duration::from_secs(20)),
            "its thread ends"
        );
    }
}
