//! The probe for functions whose types cannot travel.
//!
//! Such a function is an error, which `#[remote]` reports at its parameters. So that the actor that stands for the function is no
//! second one, generated code asks a [`TypeProbe`] for the entry: method lookup finds [`BindableTask`] if all types travel, and, one reference
//! further, [`UnbindableTask`].

use selvedge_channels::Payload;

use crate::actor::ActorEntry;
use crate::actor::actor_type::Actor;
use crate::actor::probe::TypeProbe;

/// The answer of [`TypeProbe`] for types that travel.
pub trait BindableTask {
    /// The entry of the actor.
    fn entry<A: Actor>(&self) -> &'static ActorEntry;
}

impl<T: Payload> BindableTask for TypeProbe<T> {
    fn entry<A: Actor>(&self) -> &'static ActorEntry {
        A::entry()
    }
}

/// The answer of [`TypeProbe`] for all other types.
pub trait UnbindableTask {
    /// Never called: the program does not compile.
    fn entry<A>(&self) -> &'static ActorEntry;
}

impl<T> UnbindableTask for &TypeProbe<T> {
    fn entry<A>(&self) -> &'static ActorEntry {
        const { &ActorEntry::NONE }
    }
}
