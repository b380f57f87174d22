//! One execution of a graph: the handle with which its result is fetched.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use selvedge_channels::{Fault, Wire};

use crate::ports::Collected;
use crate::run::clock::coarse_ns;
use crate::run::driver::Driver;
use crate::run::engine::{Engine, Sight};
use crate::run::error::ExecError;
use crate::run::leaf::{AnyLeaf, Leaf, Status};
use crate::run::patience::Patience;

/// Reads a result from the leaves of the graph's output.
pub(crate) type Take<Out> = fn(&mut Collected<'_>) -> Result<Out, Fault>;

/// A submitted execution. Its result is fetched once: [`wait`](Self::wait) consumes the handle.
///
/// Results may be fetched in any order. Dropping the handle cancels what has not started of the execution, drops its async methods
/// where they await, and gives its slots back; it never blocks.
#[must_use = "dropping an execution cancels it"]
pub struct Execution<Out> {
    engine: Arc<Engine>,
    number: u64,
    /// Set when the execution was refused at submission.
    refused: Option<Box<ExecError>>,
    leaves: Range<usize>,
    take: Take<Out>,
    closed: bool,
    /// When it was submitted, by the coarse clock.
    since: u64,
    /// When `.await` gives up; `None` until it has awaited.
    until: Option<Instant>,
}

impl<Out> std::fmt::Debug for Execution<Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let graph = &self.engine.plan.graph;
        f.debug_struct("Execution")
            .field("graph", graph)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<Out> Execution<Out> {
    pub(crate) fn submitted(engine: Arc<Engine>, number: u64, leaves: Range<usize>, take: Take<Out>) -> Self {
        Execution {
            engine,
            number,
            refused: None,
            leaves,
            take,
            closed: false,
            since: coarse_ns(),
            until: None,
        }
    }

    pub(crate) fn refused(engine: Arc<Engine>, error: ExecError, take: Take<Out>) -> Self {
        Execution {
            engine,
            number: u64::MAX,
            refused: Some(Box::new(error)),
            leaves: 0..0,
            take,
            closed: true,
            since: 0,
            until: None,
        }
    }

    /// Number of this execution: 0 for the graph's first. `None` when it was refused.
    pub fn number(&self) -> Option<u64> {
        self.refused.is_none().then_some(self.number)
    }

    /// Waits for the result, at most `Options::timeout`.
    ///
    /// # Errors
    /// [`ExecError::Task`] when a task failed (the graph goes on), [`ExecError::ActorDied`] and
    /// [`ExecError::TornDown`] when the graph has ended, [`ExecError::Timeout`] when time ran out. The first
    /// failed output ends the wait; it does not wait for the others.
    pub fn wait(mut self) -> Result<Out, ExecError> {
        let patience = self.engine.patience();
        self.wait_at_most(&patience)
    }

    /// Waits at most `timeout`; zero looks once, unless another thread is looking. After [`ExecError::Timeout`] the execution goes on and may be
    /// waited for again; after a result or any other error it is [`ExecError::Taken`].
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Out, ExecError> {
        self.wait_at_most(&Patience::new(Some(timeout), "the argument of wait_timeout"))
    }

    /// The result if it is there, without waiting for it. Another thread that uses the graph at this moment is waited for, at most
    /// 50 ms: one that uses it for longer, for an inline actor's method or a large input, makes it `None`.
    pub fn try_get(&mut self) -> Option<Result<Out, ExecError>> {
        if let Some(error) = self.early() {
            return Some(Err(error));
        }
        let (engine, mut sight, _) = self.sight();
        engine.glance(&mut sight);
        sight.found
    }

    /// The result if it is there; else `context`'s task is woken when it may be. As `.await`, without its time limit: for callers
    /// that keep their own.
    pub fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<Result<Out, ExecError>> {
        self.poll_until(context, |_, _| true)
    }

    /// Looks for the result. Where it is not there, the task is registered unless `waits`, with the engine and what `.await` keeps of
    /// its deadline, says that its time is up.
    fn poll_until(
        &mut self,
        context: &mut Context<'_>,
        waits: impl FnOnce(&Engine, &mut Option<Instant>) -> bool,
    ) -> Poll<Result<Out, ExecError>> {
        if let Some(error) = self.early() {
            return Poll::Ready(Err(error));
        }
        let since = self.since;
        let (engine, mut sight, until) = self.sight();
        let (number, mut late) = (sight.number, false);
        engine.poll(&mut sight, |driver| {
            late = !waits(engine, until);
            if !late && driver.register(number, context.waker(), *until) {
                engine.bell.ring();
            }
        });
        match sight.found {
            Some(found) => Poll::Ready(found),
            None if late => Poll::Ready(Err(engine.late(number, since))),
            None => match engine.serve_awaits() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    pub(crate) fn wait_at_most(&mut self, patience: &Patience) -> Result<Out, ExecError> {
        if let Some(error) = self.early() {
            return Err(error);
        }
        let since = self.since;
        let (engine, mut sight, _) = self.sight();
        match engine.wait(sight.number, since, patience, &mut sight) {
            None => sight.found.unwrap_or_else(unanswered),
            Some(error) => Err(error),
        }
    }

    /// What is known without looking: refused at submission, or taken before.
    fn early(&mut self) -> Option<ExecError> {
        match &self.refused {
            Some(error) => Some(ExecError::clone(error)),
            None if self.closed => Some(ExecError::Taken {
                execution: self.number,
            }),
            None => None,
        }
    }

    /// What is needed to look for the result, beside the engine that is asked to and the deadline of `.await`.
    fn sight(&mut self) -> (&Arc<Engine>, Handle<'_, Out>, &mut Option<Instant>) {
        let sight = Handle {
            engine: &self.engine,
            number: self.number,
            leaves: &self.leaves,
            take: self.take,
            closed: &mut self.closed,
            found: None,
        };
        (&self.engine, sight, &mut self.until)
    }

    /// Replaces this handle by one for each of its leaves, which are to be such as `fits` says.
    fn share(&self, fits: &[fn(&mut dyn AnyLeaf) -> bool]) -> Result<(), ExecError> {
        self.engine.drive_soon(|driver| {
            let leaves = driver
                .lane
                .leaves
                .get_mut(self.leaves.clone())
                .unwrap_or_default();
            let (parts, edges) = (fits.len(), leaves.len());
            let mut pairs = leaves.iter_mut().zip(fits);
            if parts != edges || !pairs.all(|(leaf, fits)| fits(leaf.as_mut())) {
                return Err(ExecError::NotSplit { parts, edges });
            }
            driver.share(self.number, parts as u32);
            Ok(())
        })?
    }

    /// This handle's parts, one for each of `ranges`, typed by the caller.
    fn part<T: Wire>(&self, position: usize) -> Execution<T> {
        let leaf = self.leaves.start + position;
        let engine = Arc::clone(&self.engine);
        let mut part = Execution::submitted(engine, self.number, leaf..leaf + 1, take_one::<T>);
        part.since = self.since;
        part
    }

    fn refused_part<T: Wire>(&self, error: &ExecError) -> Execution<T> {
        Execution::refused(Arc::clone(&self.engine), error.clone(), take_one::<T>)
    }
}

fn is_leaf_of<T: Wire>(leaf: &mut dyn AnyLeaf) -> bool {
    leaf.as_any_mut().is::<Leaf<T>>()
}

fn take_one<T: Wire>(collected: &mut Collected<'_>) -> Result<T, Fault> {
    collected.next::<T>()
}

/// What is needed of a handle to look for its result.
struct Handle<'e, Out> {
    engine: &'e Engine,
    number: u64,
    leaves: &'e Range<usize>,
    take: Take<Out>,
    closed: &'e mut bool,
    found: Option<Result<Out, ExecError>>,
}

impl<Out> Handle<'_, Out> {
    fn unfinished(&self, unfinished: bool) {
        if unfinished {
            self.engine.cancel(self.number);
        }
    }
}

impl<Out> Sight for Handle<'_, Out> {
    #[inline]
    fn at_once(&mut self, driver: &mut Driver) -> bool {
        if !driver.stirs() {
            return false;
        }
        let lengths = self.engine.recipe.lengths.as_slice();
        let Some(taken) = driver.take_at_once(self.number, lengths, self.take) else {
            return false;
        };
        self.found = Some(taken.map_err(|fault| self.engine.error_of(self.number, &fault)));
        *self.closed = true;
        self.unfinished(driver.close_taken(self.number));
        true
    }

    /// Takes the result if it has come.
    fn look(&mut self, driver: &mut Driver) -> bool {
        let found = match driver.status(self.number, self.leaves) {
            Status::Pending => return false,
            Status::Gone => Err(ExecError::Taken {
                execution: self.number,
            }),
            Status::Fault => {
                let fault = driver.fault(self.number, self.leaves);
                Err(self
                    .engine
                    .error_of(self.number, &fault.unwrap_or_else(Fault::cancelled)))
            }
            Status::Value => {
                let leaves = driver.lane.leaves.get_mut(self.leaves.clone());
                let lengths = self.engine.recipe.lengths.as_slice();
                let mut collected = Collected::new(leaves.unwrap_or_default(), lengths, self.number);
                (self.take)(&mut collected).map_err(|fault| self.engine.error_of(self.number, &fault))
            }
        };
        if !std::mem::replace(self.closed, true) {
            let unfinished = match found {
                Ok(_) => driver.close_taken(self.number),
                Err(_) => driver.close(self.number, self.leaves),
            };
            self.unfinished(unfinished);
        }
        self.found = Some(found);
        true
    }

    fn fail(&mut self, error: ExecError) {
        self.found = Some(Err(error));
    }
}

/// Who waited for an answer and was told that there is one has it.
#[cold]
fn unanswered<Out>() -> Result<Out, ExecError> {
    Err(ExecError::Internal {
        message: "a result was found and is not there".into(),
    })
}

impl<Out> Drop for Execution<Out> {
    fn drop(&mut self) {
        if !self.closed && !Engine::let_be(&self.engine) {
            self.closed = true;
            self.engine.discard(self.number, self.leaves.clone());
        }
    }
}

/// Waits for the result, at most `Options::timeout`, as [`wait`](Execution::wait) does. After [`ExecError::Timeout`] the execution goes
/// on as long as the handle is held, and may be awaited again.
///
/// A poll computes what is due of inline actors on its thread, and where another thread does so, waits for it, at most
/// `Options::timeout`: an executor's thread that must not block wants actors in threads or processes.
impl<Out> Future for Execution<Out> {
    type Output = Result<Out, ExecError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A wait that has run out of time is over; another one begins anew.
        self.get_mut().poll_until(context, |engine, until| {
            let Some(timeout) = engine.options.timeout_value() else {
                return true;
            };
            let now = Instant::now();
            let deadline = until.take().or_else(|| now.checked_add(timeout));
            *until = deadline.filter(|deadline| *deadline > now);
            until.is_some() || deadline.is_none()
        })
    }
}

macro_rules! split {
    ($($name:ident $position:tt),+ ; $count:literal) => {
        impl<$($name: Wire),+> Execution<($($name,)+)> {
            /// One handle per output of the graph, each to be waited for by itself: a failed output fails only
            /// what depends on it.
            ///
            /// For a graph whose output is a tuple of edges. Where an output is something else, or the output is one edge that
            /// carries a tuple, every handle answers [`ExecError::NotSplit`] and the execution is cancelled.
            pub fn split(mut self) -> ($(Execution<$name>,)+) {
                let fits: [fn(&mut dyn AnyLeaf) -> bool; $count] = [$(is_leaf_of::<$name>),+];
                let shared = self.early().map_or_else(|| self.share(&fits), Err);
                match shared {
                    Err(error) => ($(self.refused_part::<$name>(&error),)+),
                    Ok(()) => {
                        self.closed = true;
                        ($(self.part::<$name>($position),)+)
                    }
                }
            }
        }
    };
}

split!(A 0, B 1; 2);
split!(A 0, B 1, C 2; 3);
split!(A 0, B 1, C 2, D 3; 4);
split!(A 0, B 1, C 2, D 3, E 4; 5);
split!(A 0, B 1, C 2, D 3, E 4, F 5; 6);
split!(A 0, B 1, C 2, D 3, E 4, F 5, G 6; 7);
split!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7; 8);
