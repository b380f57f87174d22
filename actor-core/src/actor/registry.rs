//! The registry: the actor types linked into this program, found by name.
//!
//! A worker process is the same executable, so it has the same registry. The hello compares a hash of it anyway,
//! because dead-stripping has dropped link-time entries before (linkme issues 31 and 63).

use linkme::distributed_slice;

use crate::actor::ActorEntry;
use crate::error_codec::{ErrorCodec, SharedError};
use crate::lane::program::ProgramLoader;

/// All actor types of the program. `#[actor]` adds to the list at link time.
#[distributed_slice]
pub static ACTORS: [fn() -> &'static ActorEntry];

/// All loaders, which turn shipped bytes into programs in a worker process.
#[distributed_slice]
pub static LOADERS: [ProgramLoader];

/// An error: the name is not among the linked actor types.
#[derive(Clone, thiserror::Error)]
#[error(
    "actor type `{name}` is not in the registry of this program; known types: {}. \
     A crate that is a dependency but never named in code is not linked: write `use that_crate as _;`",
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
)]
pub struct UnknownActorType {
    /// The name that was looked up.
    pub name: String,
    /// The known names, sorted.
    pub known: Vec<&'static str>,
}

selvedge_channels::debug_is_report!(UnknownActorType);

impl ActorEntry {
    /// Returns the key by which [`find_actor`] finds the type: its name, followed by its place if another linked type
    /// has the same name.
    #[must_use]
    pub fn key(&self) -> String {
        let same = entries().filter(|entry| entry.name == self.name).take(2).count();
        if same < 2 || self.place.is_empty() {
            return self.name.to_owned();
        }
        format!("{} ({})", self.name, self.place)
    }

    fn has_key(&self, key: &str) -> bool {
        let Some(rest) = key.strip_prefix(self.name) else {
            return false;
        };
        rest.is_empty() || rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')) == Some(self.place)
    }
}

fn entries() -> impl Iterator<Item = &'static ActorEntry> {
    ACTORS.iter().map(|entry| entry())
}

/// Decodes an error of the type with this name. Returns `None` if the methods of the program return no such error, or
/// errors of two types with this name, or if the bytes are not one.
#[must_use]
pub fn decode_error(type_name: &str, bytes: &[u8]) -> Option<(&'static ErrorCodec, SharedError)> {
    let methods = entries().flat_map(|entry| entry.methods);
    let mut codecs = methods
        .filter_map(|method| (method.error)())
        .filter(|codec| codec.type_name() == type_name);
    let codec = codecs.next()?;
    if codecs.any(|other| other.id() != codec.id()) {
        return None;
    }
    codec.decode(bytes).map(|error| (codec, error))
}

/// Finds the actor type with this [key](ActorEntry::key).
///
/// # Errors
/// [`UnknownActorType`], which lists the known names.
pub fn find_actor(key: &str) -> Result<&'static ActorEntry, UnknownActorType> {
    entries()
        .find(|entry| entry.has_key(key))
        .ok_or_else(|| UnknownActorType {
            name: key.to_owned(),
            known: known_actors(),
        })
}

/// The names of all linked actor types, sorted.
#[must_use]
pub fn known_actors() -> Vec<&'static str> {
    let mut names: Vec<_> = ACTORS.iter().map(|entry| entry().name).collect();
    names.sort_unstable();
    names
}

/// The loader for programs of kind `kind`.
pub(crate) fn find_loader(kind: &str) -> Option<&'static ProgramLoader> {
    LOADERS.iter().find(|loader| loader.kind == kind)
}

/// Returns a hash (FNV-1a) of the whole registry: names, methods and loaders, independent of the link order.
#[must_use]
pub(crate) fn registry_hash() -> u64 {
    let mut lines: Vec<String> = ACTORS.iter().map(|entry| describe(entry())).collect();
    lines.extend(LOADERS.iter().map(|loader| format!("loader {}", loader.kind)));
    lines.sort_unstable();
    lines
        .iter()
        .flat_map(|line| line.bytes().chain([b'\n']))
        .fold(FNV_OFFSET, fnv1a)
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Computes one step of FNV-1a (Fowler, Noll, Vo): neither secret nor collision-proof, but the same everywhere.
pub(crate) fn fnv1a(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

fn describe(entry: &ActorEntry) -> String {
    let mut line = format!("actor {} {}", entry.name, entry.place);
    for method in entry.methods {
        line.push_str(&format!(" {}({})", method.name, method.params.len()));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find_actor("no::Such").unwrap_err();
        assert!(error.to_string().contains("no::Such"));
        assert_eq!(error.known, known_actors());
    }

    #[test]
    fn the_hash_is_stable_within_a_process() {
        assert_eq!(registry_hash(), registry_hash());
    }
}
