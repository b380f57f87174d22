//! Actor cells: an actor's state with its policies. User methods run only here, and their panics are caught here.

pub(crate) mod async_driver;
pub(crate) mod factory;
pub(crate) mod frame;
pub(crate) mod guarded;
pub(crate) mod helper_thread;
pub(crate) mod loan;
pub(crate) mod saving;
pub(crate) mod state;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::dispose;

use crate::actor::checkpoint::CheckpointError;
use crate::actor::extension::Method;
use crate::actor::sharing::{MethodFuture, Overlap};
use crate::actor::{ActorEntry, Compute};
use crate::cell::factory::Factory;
use crate::cell::saving::Checkpoints;
use crate::home::placement::OnPanic;
use crate::id::ActorId;
use crate::{ActorState, Arguments, AsyncDriver, Failure, Frame, Returned};

/// The data from which an actor is built, and built again.
#[derive(Clone)]
pub(crate) struct Blueprint {
    pub(crate) id: ActorId,
    pub(crate) name: Arc<str>,
    pub(crate) entry: &'static ActorEntry,
    pub(crate) factory: Factory,
    pub(crate) on_panic: OnPanic,
    /// The device that holds the actor's tensors. Used for planning only; the process where the actor runs does not use
    /// it.
    pub(crate) device: Option<u32>,
    /// The core that the actor's thread is pinned to.
    pub(crate) core: Option<u32>,
    /// The number of async methods that may be in flight at a time; at least 1.
    pub(crate) concurrency: u32,
    /// The time limit for an async constructor.
    pub(crate) build_limit: Duration,
    /// The actor's checkpoints, if it has any.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
}

impl Blueprint {
    /// The blueprint of an actor without methods.
    #[cfg(test)]
    pub(crate) fn of_nothing(name: &str) -> Self {
        static ENTRY: ActorEntry = ActorEntry {
            name: "nothing",
            instance: None,
            id: std::any::TypeId::of::<()>(),
            place: "",
            is_pinned: || false,
            checkpoint: || None,
            constructors: &[crate::ConstructorEntry {
                name: "new",
                error: || None,
                create: |_, _| Ok(ActorState::new(())),
            }],
            concurrency: 1,
            methods: &[],
        };
        Self {
            id: ActorId::next(),
            name: name.into(),
            entry: &ENTRY,
            factory: Factory::Constructor(0, [].into()),
            on_panic: OnPanic::default(),
            device: None,
            core: None,
            concurrency: 1,
            build_limit: Duration::from_secs(60),
            checkpoints: None,
        }
    }

    /// Builds the state, now and after a panic; `driver` runs an async constructor. A panic in the user's code is a
    /// failure, as is an error that it returns.
    pub(crate) fn build(self, driver: AsyncDriver) -> Result<ActorCell, Failure> {
        let driver = driver.limited(self.build_limit);
        let state = self.state(&driver)?;
        Ok(ActorCell {
            blueprint: self,
            driver,
            state: Some(state),
            is_tripped: false,
            is_visiting: false,
        })
    }

    /// Builds the state by its constructor, and puts the last checkpoint into it if there is one.
    fn state(&self, driver: &AsyncDriver) -> Result<ActorState, Failure> {
        let mut state = self.factory.build(self.entry, driver)?;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.begin(&self.name, self.entry, &mut state)?;
        }
        Ok(state)
    }
}

/// An actor at its home: its state, and the policy for panics in its methods.
pub struct ActorCell {
    blueprint: Blueprint,
    /// Runs an async constructor.
    driver: AsyncDriver,
    /// `None` only after a panic whose rebuild failed; the next use tries again.
    state: Option<ActorState>,
    /// Set if a method has panicked while others were in flight, and the state is to be rebuilt after them.
    is_tripped: bool,
    /// Set while the actor is lent to another lane. Its ordinary calls then run one after the other.
    is_visiting: bool,
}

/// An error: the state was lost to a panic and could not be rebuilt.
#[derive(thiserror::Error)]
#[error("actor `{actor}` lost its state to a panic and its constructor failed: {reason}")]
pub struct RebuildFailed {
    /// The actor's name.
    pub actor: String,
    /// The failure of the constructor, as text.
    pub reason: String,
}

selvedge_channels::debug_is_report!(RebuildFailed);

impl ActorCell {
    /// The actor's number.
    #[must_use]
    #[inline]
    pub fn id(&self) -> ActorId {
        self.blueprint.id
    }

    /// The core that the actor's thread is pinned to.
    pub(crate) fn core(&self) -> Option<u32> {
        self.blueprint.core
    }

    /// Whether async methods of the actor overlap. False for most actors.
    #[inline]
    pub(crate) fn is_concurrent(&self) -> bool {
        self.blueprint.concurrency > 1
    }

    /// The number of async methods that may be in flight at a time.
    pub(crate) fn concurrency(&self) -> u32 {
        self.blueprint.concurrency
    }

    /// Whether the actor is lent to the lane that it is on.
    pub(crate) fn is_visiting(&self) -> bool {
        self.is_visiting
    }

    /// Records whether the actor is lent to the lane that it is on.
    pub(crate) fn set_visiting(&mut self, is_visiting: bool) {
        self.is_visiting = is_visiting;
    }

    /// Whether the state is to be rebuilt as soon as no method is in flight.
    pub(crate) fn is_tripped(&self) -> bool {
        self.is_tripped
    }

    /// Whether the actor must stay on the thread that built it.
    pub(crate) fn is_pinned(&self) -> bool {
        (self.blueprint.entry.is_pinned)()
    }

    /// The actor's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.blueprint.name
    }

    /// The description of the actor's type.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> &'static ActorEntry {
        self.blueprint.entry
    }

    /// Runs a method for a program. `compute` is the function of a method in the actor's entry. A panic is caught and,
    /// if the policy says so, the state is rebuilt before this returns.
    ///
    /// # Errors
    /// The failure of the method; [`RebuildFailed`] inside [`Failure::Error`] while there is no state.
    #[inline(always)]
    pub fn compute(&mut self, compute: Compute, frame: &mut Frame<'_>) -> Result<(), Box<Failure>> {
        self.guarded(|state| compute(state, frame))
    }

    /// Runs a method for an ordinary call, with panics caught as in [`ActorCell::compute`].
    ///
    /// # Errors
    /// The errors of [`ActorCell::compute`].
    pub fn call(
        &mut self,
        method: impl Into<Method>,
        arguments: Arguments,
        driver: &AsyncDriver,
    ) -> Result<Returned, Failure> {
        let method = method.into();
        let Some(method) = method.of(self.entry()) else {
            return Err(self.no_method(method.index));
        };
        self.guarded(|state| (method.call)(state, arguments, driver))
    }

    /// Begins an async method that overlaps: returns its future, which borrows the state.
    ///
    /// # Errors
    /// The failure of the arguments; [`RebuildFailed`] inside [`Failure::Error`] while there is no state.
    pub(crate) fn begin(&mut self, overlap: &Overlap, arguments: Arguments) -> Result<MethodFuture, Failure> {
        if self.state.is_none() {
            self.rebuild()?;
        }
        let Some(state) = self.state.as_mut() else {
            return Err(Failure::Internal(
                "an actor has no state after its rebuild".to_owned(),
            ));
        };
        Failure::catch(|| (overlap.begin)(state, arguments))
    }

    /// Handles the panic of a method whose future was polled.
    pub(crate) fn flight_panicked(&mut self) {
        self.is_tripped |= self.blueprint.on_panic == OnPanic::Rebuild;
    }

    /// Rebuilds the state if a panic asked for it. No method may be in flight.
    pub(crate) fn recover(&mut self) {
        if std::mem::take(&mut self.is_tripped) {
            // If the constructor fails, the next use tries again and reports the failure.
            let _ = self.rebuild();
        }
    }

    #[inline(always)]
    fn guarded<T, E: From<Failure>>(
        &mut self,
        work: impl FnOnce(&mut ActorState) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(state) = self.state.as_mut() else {
            return self.guarded_anew(work);
        };
        // Unwind safe: the policy, in `panicked`, decides whether a state that a panic left half changed is kept.
        match catch_unwind(AssertUnwindSafe(|| work(state))) {
            Ok(result) => result,
            Err(payload) => Err(self.panicked(payload)),
        }
    }

    /// Runs `work` as `guarded` does, after another attempt to rebuild the state.
    #[cold]
    #[inline(never)]
    fn guarded_anew<T, E: From<Failure>>(
        &mut self,
        work: impl FnOnce(&mut ActorState) -> Result<T, E>,
    ) -> Result<T, E> {
        self.rebuild()?;
        let Some(state) = self.state.as_mut() else {
            let failure = Failure::Internal("an actor has no state after its rebuild".to_owned());
            return Err(failure.into());
        };
        catch_unwind(AssertUnwindSafe(|| work(state))).unwrap_or_else(|payload| Err(self.panicked(payload)))
    }

    /// Turns a method's panic into a failure, and rebuilds the state if the policy says so.
    #[cold]
    #[inline(never)]
    fn panicked<E: From<Failure>>(&mut self, payload: Box<dyn Any + Send>) -> E {
        let failure = Failure::panic(payload);
        if self.state.as_ref().is_some_and(ActorState::is_lent) {
            self.flight_panicked();
        } else if self.blueprint.on_panic == OnPanic::Rebuild {
            // If the constructor fails, the next use tries again and reports the failure.
            let _ = self.rebuild();
        }
        failure.into()
    }

    #[cold]
    fn rebuild(&mut self) -> Result<(), Failure> {
        self.drop_state();
        match self.blueprint.state(&self.driver) {
            Ok(state) => {
                self.state = Some(state);
                Ok(())
            }
            Err(failure) if failure.downcast_ref::<CheckpointError>().is_some() => Err(failure),
            Err(failure) => {
                let reason = failure.into_report().to_string();
                Err(Failure::from_error(RebuildFailed {
                    actor: self.name().to_owned(),
                    reason,
                }))
            }
        }
    }

    fn drop_state(&mut self) {
        if let Some(state) = self.state.take() {
            dispose(state);
        }
    }

    #[cold]
    #[inline(never)]
    fn no_method(&self, method: u16) -> Failure {
        Failure::Internal(format!("`{}` has no method {method}", self.entry().name))
    }
}

impl Drop for ActorCell {
    fn drop(&mut self) {
        self.drop_state();
    }
}
