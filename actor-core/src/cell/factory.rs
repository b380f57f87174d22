//! Factories: the ways in which an actor's state is built, and built again after a panic.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{Payload, Traits, dispose};

use crate::actor::ActorEntry;
use crate::actor::arguments::to_bytes;
use crate::{ActorState, AsyncDriver, BoxError, Failure};

/// A closure that builds the state once. It may hold what cannot be copied.
type First = Box<dyn FnOnce() -> Result<ActorState, Failure> + Send>;

/// A closure that builds the state whenever a panic has lost it.
type Again = Box<dyn FnMut() -> Result<ActorState, Failure> + Send>;

/// The source of an actor's state. A clone builds the same actor.
#[derive(Clone)]
pub(crate) enum Factory {
    /// A constructor of the actor's type, by its index, with its encoded arguments: the factory of a worker process.
    Constructor(u16, Arc<[u8]>),
    /// A constructor of the actor's type, with its arguments as they are. Each use clones them, so that an `Arc` among
    /// them is shared.
    Arguments(Arc<dyn KeptArguments>),
    /// Closures of this process.
    Closures(Arc<Mutex<Closures>>),
}

/// The arguments of a constructor, with their type erased.
pub(crate) trait KeptArguments: Send + Sync {
    /// Builds the actor's state from a clone of the arguments or, if they cannot be cloned, once from themselves.
    fn create(&self, driver: &AsyncDriver) -> Result<ActorState, Failure>;

    /// The index of the constructor, and the encoded arguments.
    fn encode(&self) -> Result<(u16, Vec<u8>), Failure>;
}

/// The arguments of a constructor. Dropping them may run user code, whose panics are caught.
struct StoredArguments<T: Payload> {
    index: u16,
    args: Mutex<Option<T>>,
    traits: &'static Traits<T>,
    create: CreateFrom<T>,
}

/// Calls a constructor with its arguments.
type CreateFrom<T> = fn(T, &AsyncDriver) -> Result<ActorState, Failure>;

impl<T: Payload> StoredArguments<T> {
    fn next(&self) -> Result<T, Failure> {
        let mut args = self.args.lock();
        let next = match self.traits.clone {
            Some(clone) => args.as_ref().map(clone),
            None => args.take(),
        };
        let gone = "the arguments of a constructor cannot be cloned, and were used before";
        next.ok_or_else(|| Failure::from_error(BoxError::from(gone)))
    }
}

impl<T: Payload> KeptArguments for StoredArguments<T> {
    fn create(&self, driver: &AsyncDriver) -> Result<ActorState, Failure> {
        (self.create)(self.next()?, driver)
    }

    fn encode(&self) -> Result<(u16, Vec<u8>), Failure> {
        let args = self.args.lock();
        let gone = || Failure::Internal("the arguments of a constructor are gone".to_owned());
        let bytes = to_bytes(args.as_ref().ok_or_else(gone)?, self.traits)?;
        Ok((self.index, bytes))
    }
}

impl<T: Payload> Drop for StoredArguments<T> {
    fn drop(&mut self) {
        dispose(self.args.get_mut().take());
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
    /// Creates the factory of an actor that the constructor with this index builds from `args`.
    pub(crate) fn kept<T: Payload>(
        index: u16,
        args: T,
        traits: &'static Traits<T>,
        create: CreateFrom<T>,
    ) -> Self {
        let args = Mutex::new(Some(args));
        Factory::Arguments(Arc::new(StoredArguments {
            index,
            args,
            traits,
            create,
        }))
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
            Factory::Constructor(..) => Some(Ok(self.clone())),
            Factory::Arguments(args) => {
                let bytes = Failure::catch(|| args.encode());
                Some(bytes.map(|(index, bytes)| Factory::Constructor(index, bytes.into())))
            }
        }
    }

    /// Builds the state; `driver` runs an async constructor. User code runs here; a panic in it is a failure.
    pub(crate) fn build(&self, entry: &ActorEntry, driver: &AsyncDriver) -> Result<ActorState, Failure> {
        match self {
            Factory::Constructor(index, args) => {
                let constructor = entry.constructor(*index);
                let none = || Failure::Internal(format!("`{}` has no constructor {index}", entry.name));
                let constructor = constructor.ok_or_else(none)?;
                Failure::catch(|| (constructor.create)(args, driver))
            }
            Factory::Arguments(args) => Failure::catch(|| args.create(driver)),
            Factory::Closures(closures) => Closures::build(closures),
        }
    }
}

impl Closures {
    /// Builds the state by the first closure, and later by the other one. No lock is held while they run.
    fn build(closures: &Mutex<Self>) -> Result<ActorState, Failure> {
        let first = closures.lock().first.take();
        if let Some(first) = first {
            return Failure::catch(first);
        }
        let again = closures.lock().again.take();
        let Some(mut again) = again else {
            let text = "an actor was to be built again, and has no closure for that";
            return Err(Failure::Internal(text.to_owned()));
        };
        let made = Failure::catch(&mut again);
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
