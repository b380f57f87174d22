//! One execution of a graph: the handle that fetches its result.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use selvedge_channels::{Fault, Payload};

use crate::bind::ports::{Collected, Take};
use crate::run::clock::coarse_ns;
use crate::run::driver::leaf::{AnyLeaf, Leaf};
use crate::run::engine::result::ResultWaiter;
use crate::run::engine::{Engine, TimeLimit};
use crate::run::error::ExecError;

/// A submitted execution. Its result is fetched once: [`wait`](Self::wait) consumes the handle.
///
/// Results may be fetched in any order. Dropping the handle cancels the tasks of the execution that have not started,
/// drops its async methods where they await, and releases its slots. The drop never blocks.
#[must_use = "dropping an execution cancels it"]
pub struct Execution<Out> {
    engine: Arc<Engine>,
    number: u64,
    /// Set if the execution was refused at submission.
    refused: Option<Box<ExecError>>,
    leaves: Range<usize>,
    take: Take<Out>,
    closed: bool,
    /// The time of the submission, by the coarse clock.
    since: u64,
    /// The deadline of `.await`; `None` until the handle is awaited.
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

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The number of this execution: 0 for the graph's first. `None` if it was refused.
    pub fn number(&self) -> Option<u64> {
        self.refused.is_none().then_some(self.number)
    }

    /// Waits for the result, at most `Options::timeout`.
    ///
    /// # Errors
    /// [`ExecError::Task`] if a task failed (the graph goes on), [`ExecError::ActorDied`] or [`ExecError::TornDown`] if
    /// the graph has ended, [`ExecError::Timeout`] if the time limit passed. The first failed output ends the wait,
    /// without a wait for the other outputs.
    pub fn wait(mut self) -> Result<Out, ExecError> {
        let limit = self.engine.limit();
        self.wait_at_most(&limit)
    }

    /// Waits for the result, at most `timeout`; a `timeout` of zero looks once, unless another thread uses the graph at
    /// that moment. After [`ExecError::Timeout`] the execution goes on and may be waited for again; after a result or
    /// any other error the answer is [`ExecError::Taken`].
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Out, ExecError> {
        self.wait_at_most(&TimeLimit::new(Some(timeout), "the argument of wait_timeout"))
    }

    /// Returns the result if it has arrived, without waiting for it. If another thread uses the graph at this moment,
    /// waits for that thread, at most 50 ms; returns `None` if that thread uses the graph for longer, for an inline
    /// actor's method or a large input.
    pub fn try_get(&mut self) -> Option<Result<Out, ExecError>> {
        if let Some(error) = self.early() {
            return Some(Err(error));
        }
        let (engine, mut waiter, _) = self.waiter();
        engine.look_soon(&mut waiter);
        waiter.found
    }

    /// Returns the result if it has arrived; else has the task of `context` woken when it may have arrived. Works as
    /// `.await` does, but without its time limit: for callers that keep their own deadline.
    pub fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<Result<Out, ExecError>> {
        self.poll_until(context, |_, _| true)
    }

    /// Looks for the result. If it has not arrived, registers the task, unless `waits` returns `false` because the time
    /// limit has passed. `waits` receives the engine and the stored deadline of `.await`.
    fn poll_until(
        &mut self,
        context: &mut Context<'_>,
        waits: impl FnOnce(&Engine, &mut Option<Instant>) -> bool,
    ) -> Poll<Result<Out, ExecError>> {
        if let Some(error) = self.early() {
            return Poll::Ready(Err(error));
        }
        let since = self.since;
        let (engine, mut waiter, until) = self.waiter();
        let (number, mut late) = (waiter.number, false);
        engine.poll(&mut waiter, |driver| {
            late = !waits(engine, until);
            if !late && driver.register(number, context.waker(), *until) {
                engine.bell.ring();
            }
        });
        match waiter.found {
            Some(found) => Poll::Ready(found),
            None if late => Poll::Ready(Err(engine.late(number, since))),
            None => match engine.serve_awaits() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    pub(crate) fn wait_at_most(&mut self, limit: &TimeLimit) -> Result<Out, ExecError> {
        if let Some(error) = self.early() {
            return Err(error);
        }
        let since = self.since;
        let (engine, mut waiter, _) = self.waiter();
        match engine.wait(waiter.number, since, limit, &mut waiter) {
            None => waiter.found.unwrap_or_else(unanswered),
            Some(error) => Err(error),
        }
    }

    /// The error that is known without looking: the execution was refused at submission, or its result was taken
    /// before.
    fn early(&mut self) -> Option<ExecError> {
        match &self.refused {
            Some(error) => Some(ExecError::clone(error)),
            None if self.closed => Some(ExecError::Taken {
                execution: self.number,
            }),
            None => None,
        }
    }

    /// Borrows the engine, a [`ResultWaiter`] that looks for the result, and the deadline of `.await`.
    fn waiter(&mut self) -> (&Arc<Engine>, ResultWaiter<'_, Out>, &mut Option<Instant>) {
        let waiter = ResultWaiter {
            engine: &self.engine,
            number: self.number,
            leaves: &self.leaves,
            take: self.take,
            closed: &mut self.closed,
            found: None,
        };
        (&self.engine, waiter, &mut self.until)
    }

    /// Replaces this handle by one handle per leaf, if there are as many leaves as checks in `fits` and each leaf
    /// passes its check.
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
            driver.books.share(self.number, parts as u32);
            Ok(())
        })?
    }

    /// The part of this handle at `position`, with the type that the caller names.
    fn part<T: Payload>(&self, position: usize) -> Execution<T> {
        let leaf = self.leaves.start + position;
        let engine = Arc::clone(&self.engine);
        let mut part = Execution::submitted(engine, self.number, leaf..leaf + 1, take_one::<T>);
        part.since = self.since;
        part
    }

    fn refused_part<T: Payload>(&self, error: &ExecError) -> Execution<T> {
        Execution::refused(Arc::clone(&self.engine), error.clone(), take_one::<T>)
    }
}

fn is_leaf_of<T: Payload>(leaf: &mut dyn AnyLeaf) -> bool {
    leaf.as_any_mut().is::<Leaf<T>>()
}

fn take_one<T: Payload>(collected: &mut Collected<'_>) -> Result<T, Fault> {
    collected.next::<T>()
}

/// The error for a waiter that was told that its answer has arrived and does not have it.
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

/// Waits for the result, at most `Options::timeout`, as [`wait`](Execution::wait) does. After [`ExecError::Timeout`]
/// the execution goes on as long as the handle is held, and may be awaited again.
///
/// A poll computes the due tasks of inline actors on its thread. If another thread does so, the poll waits for that
/// thread, at most `Options::timeout`. An executor thread that must not block needs actors in threads or processes.
impl<Out> Future for Execution<Out> {
    type Output = Result<Out, ExecError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A wait whose time limit has passed is over; the next poll begins a new wait.
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
        impl<$($name: Payload),+> Execution<($($name,)+)> {
            /// Returns one handle per output of the graph, each to be waited for by itself: a failure reaches only the
            /// outputs that depend on it.
            ///
            /// For a graph whose output is a tuple of edges. If an output is anything else, or the output is one edge
            /// that carries a tuple, every handle answers [`ExecError::NotSplit`] and the execution is cancelled.
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
