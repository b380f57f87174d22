//! The probe for functions whose types cannot travel.
//!
//! Such a function is an error, which `#[remote]` reports at its parameters. So that the actor that stands for the function is no
//! second one, generated code asks a [`TaskProbe`] for the entry: method lookup finds [`BindableTask`] if all types travel, and, one reference
//! further, [`UnbindableTask`].

use std::marker::PhantomData;

use selvedge_channels::Payload;

use crate::actor::ActorEntry;
use crate::actor::actor_type::Actor;

/// A probe that tells whether values of all types of the tuple `T` travel. See the documentation of the module.
pub struct TaskProbe<T>(PhantomData<fn() -> T>);

impl<T> TaskProbe<T> {
    /// Creates a probe, which has no data.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for TaskProbe<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer of [`TaskProbe`] for types that travel.
pub trait BindableTask {
    /// The entry of the actor.
    fn entry<A: Actor>(&self) -> &'static ActorEntry;
}

impl<T: Payload> BindableTask for TaskProbe<T> {
    fn entry<A: Actor>(&self) -> &'static ActorEntry {
        A::entry()
    }
}

/// The answer of [`TaskProbe`] for all other types.
pub trait UnbindableTask {
    /// Never called: the program does not compile.
    fn entry<A>(&self) -> &'static ActorEntry;
}

impl<T> UnbindableTask for &TaskProbe<T> {
    fn entry<A>(&self) -> &'static ActorEntry {
        const { &ActorEntry::NONE }
    }
}
