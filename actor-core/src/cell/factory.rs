//! Factories: the ways in which an actor's state is built, and built again after a panic.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::dispose;

use crate::actor::ActorEntry;
use crate::actor::actor_type::Actor;
use crate::actor::arguments::to_bytes;
use crate::{ActorState, BoxError, Failure};

/// A closure that builds the state once. It may hold what cannot be copied.
type First = Box<dyn FnOnce() -> Result<ActorState, BoxError> + Send>;

/// A closure that builds the state whenever a panic has lost it.
type Again = Box<dyn FnMut() -> Result<ActorState, BoxError> + Send>;

/// The source of an actor's state. A clone builds the same actor.
#[derive(Clone)]
pub(crate) enum Factory {
    /// The constructor of the actor's type, with its encoded arguments: the factory of a worker process.
    Constructor(Arc<[u8]>),
    /// The constructor of the actor's type, with its arguments as they are. Each use clones them, so that an `Arc` among
    /// them is shared; arguments that are not `Clone` are moved out by the first use.
    Arguments(Arc<dyn KeptArguments>),
    /// Closures of this process.
    Closures(Arc<Mutex<Closures>>),
}

/// The arguments of a constructor, with their type erased.
pub(crate) trait KeptArguments: Send + Sync {
    /// Builds the actor's state from a clone of the arguments.
    fn create(&self) -> Result<ActorState, BoxError>;

    /// Encodes the arguments.
    fn encode(&self) -> Result<Vec<u8>, Failure>;
}

/// The arguments of the constructor of `A`; `None` once they were moved out. Dropping them may run user code, whose
/// panics are caught.
struct Kept<A: Actor>(Mutex<Option<A::Args>>);

/// The reason why an actor is not built again.
fn gone<A: Actor>() -> Failure {
    let text = "the arguments of the constructor of `{}` are not `Clone`, so they build the actor once";
    Failure::Internal(text.replace("{}", A::NAME))
}

impl<A: Actor> KeptArguments for Kept<A> {
    fn create(&self) -> Result<ActorState, BoxError> {
        let mut kept = self.0.lock();
        let args = match (A::arguments().clone, &*kept) {
            (Some(clone), Some(args)) => Some(clone(args)),
            _ => kept.take(),
        };
        // The constructor runs without the lock.
        drop(kept);
        Ok(ActorState::new(A::create(args.ok_or_else(gone::<A>)?)?))
    }

    fn encode(&self) -> Result<Vec<u8>, Failure> {
        to_bytes(self.0.lock().as_ref().ok_or_else(gone::<A>)?, A::arguments())
    }
}

impl<A: Actor> Drop for Kept<A> {
    fn drop(&mut self) {
        dispose(self.0.get_mut().take());
    }
}

/// The closures that build one actor.
pub(crate) struct Closures {
    /// `None` once it was called.
    first: Option<First>,
    /// `None` while it runs, and if the actor is never built again.
    again: Option<Again>,
}

impl Factory {
    /// Creates the factory of an actor that its constructor builds from `args`.
    pub(crate) fn arguments<A: Actor>(args: A::Args) -> Self {
        Factory::Arguments(Arc::new(Kept::<A>(Mutex::new(Some(args)))))
    }

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

    /// The factory for a worker process, which is sent as bytes. `None` if only this process can build the actor.
    pub(crate) fn for_worker(&self) -> Option<Result<Self, Failure>> {
        match self {
            Factory::Closures(_) => None,
            Factory::Constructor(_) => Some(Ok(self.clone())),
            Factory::Arguments(args) => {
                let bytes = Failure::catch(|| args.encode());
                Some(bytes.map(|bytes| Factory::Constructor(bytes.into())))
            }
        }
    }

    /// Builds the state. User code runs here; a panic in it is a failure.
    pub(crate) fn build(&self, entry: &ActorEntry) -> Result<ActorState, Failure> {
        match self {
            Factory::Constructor(args) => run(|| (entry.create)(args)),
            Factory::Arguments(args) => run(|| args.create()),
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
