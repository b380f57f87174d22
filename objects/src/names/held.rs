//! The objects that an owner holds because they have names.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Incarnation, Peer};

use super::mutant::NameMutant;
use super::{NamedObject, NamingId};

/// The objects that an owner holds because they have names, each with a handle `H` of it. They outlive the process that gave the name,
/// and the head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldNames<H> {
    held: IdMap<NamingId, (NamedObject, H)>,
    /// The last life of the head that has asked what is held.
    recalled_by: Incarnation,
    mutant: NameMutant,
}

impl<H> Default for HeldNames<H> {
    fn default() -> Self {
        HeldNames {
            held: IdMap::new(),
            recalled_by: Incarnation(0),
            mutant: NameMutant::None,
        }
    }
}

impl<H> HeldNames<H> {
    #[cfg(test)]
    pub(super) fn with_mutant(mut self, mutant: NameMutant) -> Self {
        self.mutant = mutant;
        self
    }

    /// Holds an object for its name.
    ///
    /// # Errors
    /// The handle, if it is held under this naming already, or if the head that has asked for it is dead: the head that goes on for
    /// that one was told what is held, and would not know of this.
    pub fn hold(&mut self, object: NamedObject, handle: H) -> Result<(), H> {
        let is_late = object.naming.head.incarnation < self.recalled_by;
        if self.held.contains_key(&object.naming) || (is_late && self.mutant != NameMutant::HeedsTheDead) {
            return Err(handle);
        }
        self.held.insert(object.naming, (object, handle));
        Ok(())
    }

    /// The objects, for a head that goes on for a dead one.
    pub fn recall(&mut self, head: Peer) -> Vec<NamedObject> {
        self.recalled_by = self.recalled_by.max(head.incarnation);
        self.objects().cloned().collect()
    }

    /// An object has lost its name. Returns the handle of it.
    pub fn unhold(&mut self, naming: NamingId) -> Option<H> {
        self.held.remove(&naming).map(|(_, handle)| handle)
    }

    /// The handle of an object.
    #[must_use]
    pub fn handle(&self, naming: NamingId) -> Option<&H> {
        self.held.get(&naming).map(|(_, handle)| handle)
    }

    /// The objects, in the order of their namings.
    pub fn objects(&self) -> impl Iterator<Item = &NamedObject> {
        self.held.values().map(|(object, _)| object)
    }
}
