//! An actor's state with its policy: the one place where user methods run and their panics are caught.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use selvedge_channels::dispose;

use crate::actor::ActorEntry;
use crate::id::ActorId;
use crate::placement::OnPanic;
use crate::{Arguments, AsyncDriver, ComputeHop, Failure, Hop, Invocation, Returned, State};

/// What is needed to build an actor, and to build it again.
#[derive(Clone)]
pub(crate) struct Blueprint {
    pub(crate) id: ActorId,
    pub(crate) name: Arc<str>,
    pub(crate) entry: &'static ActorEntry,
    /// The constructor's arguments, encoded.
    pub(crate) args: Arc<[u8]>,
    pub(crate) on_panic: OnPanic,
    /// The device that its tensors lie on, for who plans; where it runs, nobody asks.
    pub(crate) device: Option<u32>,
    /// The core that its thread keeps to.
    pub(crate) core: Option<u32>,
}

impl Blueprint {
    /// What builds an actor that has no methods.
    #[cfg(test)]
    pub(crate) fn of_nothing(name: &str) -> Self {
        static ENTRY: ActorEntry = ActorEntry {
            name: "nothing",
            place: "",
            create: |_| Ok(State::new(())),
            methods: &[],
        };
        Self {
            id: ActorId::next(),
            name: name.into(),
            entry: &ENTRY,
            args: [].into(),
            on_panic: OnPanic::default(),
            device: None,
            core: None,
        }
    }

    /// Runs the constructor; its panic is a failure like its error.
    pub(crate) fn build(self) -> Result<ActorCell, Failure> {
        let state = construct(self.entry, &self.args)?;
        Ok(ActorCell {
            blueprint: self,
            state: Some(state),
        })
    }
}

/// An actor where it lives: its state, and what happens when a method panics.
pub struct ActorCell {
    blueprint: Blueprint,
    /// `None` only after a panic whose rebuild failed; the next use tries again.
    state: Option<State>,
}

/// The state was lost to a panic and could not be built anew.
#[derive(thiserror::Error)]
#[error("actor `{actor}` lost its state to a panic and its constructor failed: {reason}")]
pub struct RebuildFailed {
    /// The actor's name.
    pub actor: String,
    /// What the constructor said.
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

    /// The core that its thread keeps to.
    pub(crate) fn core(&self) -> Option<u32> {
        self.blueprint.core
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

    /// Runs a method for a program. A panic is caught and, where the policy says so, the state is built anew
    /// before this returns.
    ///
    /// # Errors
    /// What the method failed with; [`RebuildFailed`] inside [`Failure::Error`] while there is no state.
    #[inline]
    pub fn invoke(&mut self, method: u16, invocation: &mut Invocation<'_>) -> Result<(), Box<Failure>> {
        let Some(method) = self.entry().method(method) else {
            return Err(self.no_method(method));
        };
        self.guarded(|state| (method.compute)(state, invocation))
    }

    /// As [`invoke`](Self::invoke), for a task that is no more than a hop: `compute` is the method of the actor's entry.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn hop(&mut self, compute: ComputeHop, hop: &mut Hop<'_>) -> Result<(), Box<Failure>> {
        self.guarded(|state| compute(state, hop))
    }

    /// Runs a method for an ordinary call, guarded like [`ActorCell::invoke`].
    ///
    /// # Errors
    /// As [`ActorCell::invoke`].
    pub fn call(
        &mut self,
        method: u16,
        arguments: Arguments,
        driver: &AsyncDriver,
    ) -> Result<Returned, Failure> {
        let Some(method) = self.entry().method(method) else {
            return Err(self.no_method(method));
        };
        self.guarded(|state| (method.call)(state, arguments, driver))
    }

    #[inline]
    fn guarded<T, E: From<Failure>>(
        &mut self,
        work: impl FnOnce(&mut State) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(state) = self.state.as_mut() else {
            return self.guarded_anew(work);
        };
        // Unwind safe: the policy below decides what becomes of a state that a panic left half changed.
        match catch_unwind(AssertUnwindSafe(|| work(state))) {
            Ok(result) => result,
            Err(payload) => Err(self.panicked(payload)),
        }
    }

    /// The same, after another attempt to build the state anew.
    #[cold]
    #[inline(never)]
    fn guarded_anew<T, E: From<Failure>>(
        &mut self,
        work: impl FnOnce(&mut State) -> Result<T, E>,
    ) -> Result<T, E> {
        self.rebuild()?;
        let Some(state) = self.state.as_mut() else {
            let failure = Failure::Internal("an actor has no state after its rebuild".to_owned());
            return Err(failure.into());
        };
        catch_unwind(AssertUnwindSafe(|| work(state))).unwrap_or_else(|payload| Err(self.panicked(payload)))
    }

    /// What a method's panic comes to; the state is built anew where the policy says so.
    #[cold]
    #[inline(never)]
    fn panicked<E: From<Failure>>(&mut self, payload: Box<dyn Any + Send>) -> E {
        let failure = Failure::panic(payload);
        if self.blueprint.on_panic == OnPanic::Rebuild {
            // A failing constructor is reported by the next use, which tries again.
            let _ = self.rebuild();
        }
        failure.into()
    }

    #[cold]
    fn rebuild(&mut self) -> Result<(), Failure> {
        self.drop_state();
        match construct(self.blueprint.entry, &self.blueprint.args) {
            Ok(state) => {
                self.state = Some(state);
                Ok(())
            }
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
    fn no_method<E: From<Failure>>(&self, method: u16) -> E {
        let text = format!("`{}` has no method {method}", self.entry().name);
        Failure::Internal(text).into()
    }
}

impl Drop for ActorCell {
    fn drop(&mut self) {
        self.drop_state();
    }
}

fn construct(entry: &ActorEntry, args: &[u8]) -> Result<State, Failure> {
    Failure::catch(|| (entry.create)(args).map_err(Failure::from_error))
}
