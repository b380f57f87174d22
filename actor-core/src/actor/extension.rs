//! Extensions: operations of an actor type beside those of its entry, from a further `impl` block or from a trait.
//!
//! An extension is found by its actor's type and its own place in the source, so blocks need not know of each other. Code of
//! one process refers to it directly; between processes its key stands for it.

use std::any::TypeId;
use std::fmt;

use super::{ActorEntry, MethodEntry};

/// Operations of one `impl` block for one actor type.
pub struct Extension {
    /// The full name of the actor's type.
    pub actor: fn() -> &'static str,
    /// The actor's type itself.
    pub id: TypeId,
    /// The place of the block, or of the trait that declares the operations, as `file:line:column`.
    pub place: &'static str,
    /// The operations. An operation is identified by its index here.
    pub methods: &'static [MethodEntry],
}

impl Extension {
    /// The key by which worker processes find the extension.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{} at {}", (self.actor)(), self.place)
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension")
            .field("key", &self.key())
            .field("methods", &self.methods)
            .finish()
    }
}

/// The identity of a method among all methods of its actor.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// The extension that has the method. `None` for a method of the actor's entry.
    pub extension: Option<&'static Extension>,
    /// The index of the method there.
    pub index: u16,
}

impl From<u16> for Method {
    fn from(index: u16) -> Self {
        let extension = None;
        Method { extension, index }
    }
}

impl From<(&'static Extension, u16)> for Method {
    fn from((extension, index): (&'static Extension, u16)) -> Self {
        let extension = Some(extension);
        Method { extension, index }
    }
}

impl Method {
    /// The method's description, for an actor with this entry.
    #[must_use]
    pub fn of(self, entry: &'static ActorEntry) -> Option<&'static MethodEntry> {
        match self.extension {
            None => entry.method(self.index),
            Some(extension) => extension.methods.get(usize::from(self.index)),
        }
    }

    /// The method's name, or `"?"` if the actor has no such method.
    #[must_use]
    pub fn name(self, entry: &'static ActorEntry) -> &'static str {
        self.of(entry).map_or("?", |method| method.name)
    }
}
