//! The actor that a function is in a graph: inline, without state, and gone with the graph.

use crate::actor::actor_type::Actor;
use crate::actor_ref::ActorRef;
use crate::runtime::Runtime;
use crate::spawn_error::SpawnError;

/// An inline actor without state, which stands for a function. The runtime lists it until this is dropped; then it ends with the
/// last [`ActorRef`].
#[derive(Debug)]
pub struct FunctionActor {
    actor: ActorRef,
}

impl Runtime {
    /// Builds the actor that stands for a function. `F` is the type that `#[remote]` puts beside the function.
    ///
    /// # Errors
    /// [`SpawnError`], if the runtime is shut down.
    #[doc(hidden)] // for the compiler
    pub fn function_actor<F: Actor<Args = ()>>(&self, name: &str) -> Result<FunctionActor, SpawnError> {
        let actor = self.spawn::<F>(name, ()).inline_actor()?;
        Ok(FunctionActor { actor })
    }
}

impl FunctionActor {
    /// A reference to the actor.
    #[must_use]
    pub fn actor(&self) -> &ActorRef {
        &self.actor
    }
}

impl Drop for FunctionActor {
    fn drop(&mut self) {
        if let Some(directory) = self.actor.directory() {
            directory.remove_record(self.actor.id());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use selvedge_channels::Traits;

    use super::*;
    use crate::actor::ActorEntry;
    use crate::actor::construction::Construction;
    use crate::cell::state::ActorState;

    /// The number of states that exist.
    static LIVING: AtomicUsize = AtomicUsize::new(0);

    struct StatelessToy;

    impl Drop for StatelessToy {
        fn drop(&mut self) {
            LIVING.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Actor for StatelessToy {
        type Args = ();
        type Handle = ActorRef;
        const NAME: &'static str = "stateless toy";

        fn entry() -> &'static ActorEntry {
            static ENTRY: ActorEntry = ActorEntry {
                instance: Some(|| "stateless toy"),
                id: TypeId::of::<StatelessToy>(),
                ..ActorEntry::NONE
            };
            &ENTRY
        }

        fn construction((): ()) -> Construction<Self, ()> {
            Construction::new(0, (), const { &Traits::LETTER }, |(), _| {
                LIVING.fetch_add(1, Ordering::SeqCst);
                Ok(StatelessToy.into_actor_state())
            })
        }

        fn into_actor_state(self) -> ActorState {
            ActorState::new(self)
        }

        fn handle(actor: ActorRef) -> ActorRef {
            actor
        }
    }

    #[test]
    fn dag_04_the_actor_of_a_function_ends_with_its_last_reference_while_the_runtime_lives() {
        let runtime = Runtime::new();
        let function = runtime.function_actor::<StatelessToy>("f").unwrap();
        let actor = function.actor().clone();
        assert_eq!(runtime.inner().directory.records().len(), 1);
        drop(function);
        assert!(runtime.inner().directory.records().is_empty(), "nobody lists it");
        assert_eq!(LIVING.load(Ordering::SeqCst), 1, "a graph still has it");
        drop(actor);
        assert_eq!(LIVING.load(Ordering::SeqCst), 0);
    }
}
