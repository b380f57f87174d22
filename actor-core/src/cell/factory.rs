//! Factories: the ways in which an actor's state is built, and built again after a panic.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::dispose;

use crate::actor::ActorEntry;
use crate::{ActorState, BoxError, Failure};

/// A closure that builds the state once. It may hold what cannot be copied.
type First = Box<dyn FnOnce() -> Result<ActorState, BoxError> + Send>;

/// A closure that builds the state whenever a panic has lost it.
type Again = Box<dyn FnMut() -> Result<ActorState, BoxError> + Send>;

/// The source of an actor's state. A clone builds the same actor.
#[derive(Clone)]
pub(crate) enum Factory {
    /// The constructor of the actor's type, with its encoded arguments. Works in every process of the program.
    Constructor(Arc<[u8]>),
    /// Closures of this process.
    Closures(Arc<Mutex<Closures>>),
}

/// The closures that build one actor.
pub(crate) struct Closures {
    /// `None` once it was called.
    first: Option<First>,
    /// `None` while it runs, and if the actor is never built again.
    again: Option<Again>,
}

impl Factory {
    /// Creates the factory of an actor that `first` builds.
    pub(crate) fn closure(first: First) -> Self {
        let first = Some(first);
        Factory::Closures(Arc::new(Mutex::new(Closures { first, again: None })))
    }

    /// Sets the closure that builds the state again. A constructor needs none.
    pub(crate) fn rebuild_with(&self, again: Again) {
        if let Factory::Closures(closures) = self {
            let before = closures.lock().again.replace(again);
            dispose(before);
        }
    }

    /// Whether only this process can build the actor.
    pub(crate) fn is_bound_to_this_process(&self) -> bool {
        matches!(self, Factory::Closures(_))
    }

    /// Builds the state. User code runs here; a panic in it is a failure.
    pub(crate) fn build(&self, entry: &ActorEntry) -> Result<ActorState, Failure> {
        match self {
            Factory::Constructor(args) => run(|| (entry.create)(args)),
            Factory::Closures(closures) => Closures::build(closures),
        }
    }
}

impl Closures {
    /// Builds the state by the first closure, and later by the other one. No lock is held while they run.
    fn build(closures: &Mutex<Self>) -> Result<ActorState, Failure> {
        let first = closures.lock().first.take();
        if let Some(first) = first {
            return run(first);
        }
        let again = closures.lock().again.take();
        let Some(mut again) = again else {
            let text = "an actor was to be built again, and has no closure for that";
            return Err(Failure::Internal(text.to_owned()));
        };
        let made = run(&mut again);
        closures.lock().again = Some(again);
        made
    }
}

impl Drop for Closures {
    fn drop(&mut self) {
        // What the closures hold belongs to the user, and its drop may panic.
        dispose(self.first.take());
        dispose(self.again.take());
    }
}

fn run(make: impl FnOnce() -> Result<ActorState, BoxError>) -> Result<ActorState, Failure> {
    Failure::catch(|| make().map_err(Failure::from_error))
}
