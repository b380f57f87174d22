//! The registry: the actor types linked into this program, found by name.
//!
//! A worker process is the same executable, so it has the same registry. The hello compares a hash of it anyway,
//! because dead-stripping has dropped link-time entries before (linkme issues 31 and 63).

use linkme::distributed_slice;
use parking_lot::Mutex;

use crate::BoxError;
use crate::actor::checkpoint::CHECKPOINT_ERRORS;
use crate::actor::extension::Extension;
use crate::actor::{ActorEntry, MethodEntry};
use crate::error_codec::{ErrorCodec, SharedError};
use crate::failure::{Failure, FailureReport};
use crate::fnv::{FNV_OFFSET, fnv1a};
use crate::lane::program::ProgramLoader;
use crate::lineage::LOSSES;
use crate::remote::function::FUNCTIONS;

/// All actor types of the program. `#[actor]` adds to the list at link time.
#[distributed_slice]
pub static ACTORS: [fn() -> &'static ActorEntry];

/// All extensions of actor types. `#[actor(more)]` and `#[actor] impl Trait for Type` add to the list at link time.
#[distributed_slice]
pub static EXTENSIONS: [fn() -> &'static Extension];

/// Instances of generic actors that this process uses and that the lists above do not name. Workers cannot find them.
static USED: Mutex<Vec<&'static ActorEntry>> = Mutex::new(Vec::new());

/// Extensions of generic actors, as in `USED`.
static USED_EXTENSIONS: Mutex<Vec<&'static Extension>> = Mutex::new(Vec::new());

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

/// An error: a worker process cannot find operations of a further block, or of a trait, for this type.
#[derive(Clone, thiserror::Error)]
#[error(
    "a worker process cannot find the operations of `{0}`: that block is generic, so write the type into its `#[actor(for(..))]`, or \
     spawn the actor inline or on a thread"
)]
pub struct UnknownExtension(pub String);

selvedge_channels::debug_is_report!(UnknownExtension);

impl ActorEntry {
    /// Returns the key by which [`find_actor`] finds the type: its name, followed by its place if another linked type
    /// has the same name.
    #[must_use]
    pub fn key(&self) -> String {
        let same = entries()
            .filter(|entry| entry.full_name() == self.full_name())
            .take(2)
            .count();
        if same < 2 || self.place.is_empty() {
            return self.full_name().to_owned();
        }
        format!("{} ({})", self.full_name(), self.place)
    }

    fn has_key(&self, key: &str) -> bool {
        let Some(rest) = key.strip_prefix(self.full_name()) else {
            return false;
        };
        rest.is_empty() || rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')) == Some(self.place)
    }
}

fn entries() -> impl Iterator<Item = &'static ActorEntry> {
    ACTORS.iter().map(|entry| entry())
}

/// Decodes an error of the type with this name. Returns `None` if no constructor, method or function of the program returns such an error, or if they return
/// errors of two types with this name, or if the bytes are not one.
#[must_use]
pub fn decode_error(type_name: &str, bytes: &[u8]) -> Option<(&'static ErrorCodec, SharedError)> {
    let extended = extensions().flat_map(|extension| extension.methods);
    let methods = entries().flat_map(|entry| entry.methods).chain(extended);
    let functions = FUNCTIONS.iter().filter_map(|function| (function.error)());
    let constructors = entries().flat_map(|entry| entry.constructors);
    let mut codecs = methods
        .filter_map(|method| (method.error)())
        .chain(functions)
        .chain(constructors.filter_map(|constructor| (constructor.error)()))
        .chain([&CHECKPOINT_ERRORS, &LOSSES])
        .filter(|codec| codec.type_name() == type_name);
    let codec = codecs.next()?;
    if codecs.any(|other| other.id() != codec.id()) {
        return None;
    }
    codec.decode(bytes).map(|error| (codec, error))
}

/// Returns the failure of another process with the user's own error in it, if its report contains the error and serde
/// knows the error's type here.
pub(crate) fn typed(failure: Failure) -> Failure {
    match failure {
        Failure::Unmade { functions, failure } => {
            let failure = typed(*failure);
            functions.into_iter().rev().fold(failure, Failure::unmade)
        }
        failure => own_error(&failure).unwrap_or(failure),
    }
}

fn own_error(failure: &Failure) -> Option<Failure> {
    let Failure::Error { error, .. } = failure else {
        return None;
    };
    let report = error.downcast_ref::<FailureReport>()?;
    let (codec, error) = decode_error(&report.type_name, report.encoded.as_deref()?)?;
    let functions = report.functions.iter().rev().cloned();
    Some(functions.fold(Failure::encodable(error, codec), Failure::unmade))
}

/// Finds the actor type with this [key](ActorEntry::key).
///
/// # Errors
/// [`UnknownActorType`], which lists the known names.
pub fn find_actor(key: &str) -> Result<&'static ActorEntry, UnknownActorType> {
    let linked = entries().find(|entry| entry.has_key(key));
    let used = || {
        let used = USED.lock();
        used.iter().find(|entry| entry.has_key(key)).copied()
    };
    linked.or_else(used).ok_or_else(|| UnknownActorType {
        name: key.to_owned(),
        known: known_actors(),
    })
}

/// Makes an entry known to [`find_actor`] in this process.
pub(crate) fn note_actor(entry: &'static ActorEntry) {
    if entry.instance.is_some() && !is_linked(entry) {
        let mut used = USED.lock();
        if used.iter().all(|known| known.id != entry.id) {
            used.push(entry);
        }
    }
}

/// Whether worker processes find the type.
pub(crate) fn is_linked(entry: &ActorEntry) -> bool {
    entries().any(|linked| linked.id == entry.id)
}

/// Whether worker processes find the extension.
///
/// # Errors
/// [`UnknownExtension`].
pub fn check_linked(extension: &Extension) -> Result<(), UnknownExtension> {
    let is_same = |linked: &Extension| linked.id == extension.id && linked.place == extension.place;
    if extensions().any(is_same) {
        return Ok(());
    }
    Err(UnknownExtension(extension.key()))
}

fn extensions() -> impl Iterator<Item = &'static Extension> {
    EXTENSIONS.iter().map(|extension| extension())
}

/// Makes an extension known to [`find_extension`] in this process, and returns its key.
pub fn note_extension(extension: &'static Extension) -> String {
    if check_linked(extension).is_err() {
        let is_same = |known: &&Extension| known.id == extension.id && known.place == extension.place;
        let mut used = USED_EXTENSIONS.lock();
        if !used.iter().any(is_same) {
            used.push(extension);
        }
    }
    extension.key()
}

/// Finds the extension with this [key](Extension::key). `None` if the program has none, or several of different types.
#[must_use]
pub fn find_extension(key: &str) -> Option<&'static Extension> {
    let used = USED_EXTENSIONS.lock();
    let mut found = extensions()
        .chain(used.iter().copied())
        .filter(|extension| extension.key() == key);
    let first = found.next()?;
    found.all(|other| other.id == first.id).then_some(first)
}

/// Finds a method: of an actor type, by the type's key, or of an extension, by the extension's key.
///
/// # Errors
/// [`UnknownActorType`] or [`UnknownExtension`]; `Ok(None)` if the type or extension has no such method.
pub fn find_method(
    actor: &str,
    extension: Option<&str>,
    index: u16,
) -> Result<Option<&'static MethodEntry>, BoxError> {
    let Some(key) = extension else {
        return Ok(find_actor(actor)?.method(index));
    };
    let extension = find_extension(key).ok_or_else(|| UnknownExtension(key.to_owned()))?;
    Ok(extension.methods.get(usize::from(index)))
}

/// The names of all linked actor types, sorted.
#[must_use]
pub fn known_actors() -> Vec<&'static str> {
    let mut names: Vec<_> = ACTORS.iter().map(|entry| entry().full_name()).collect();
    names.sort_unstable();
    names
}

/// The loader for programs of kind `kind`.
pub(crate) fn find_loader(kind: &str) -> Option<&'static ProgramLoader> {
    LOADERS.iter().find(|loader| loader.kind == kind)
}

/// Returns a hash (FNV-1a) of the whole registry: names, methods, functions and loaders, independent of the link order.
#[must_use]
pub(crate) fn registry_hash() -> u64 {
    let mut lines: Vec<String> = ACTORS.iter().map(|entry| describe(entry())).collect();
    lines.extend(extensions().map(describe_extension));
    lines.extend(
        FUNCTIONS
            .iter()
            .map(|function| format!("function {}", function.key())),
    );
    lines.extend(LOADERS.iter().map(|loader| format!("loader {}", loader.kind)));
    lines.sort_unstable();
    lines
        .iter()
        .flat_map(|line| line.bytes().chain([b'\n']))
        .fold(FNV_OFFSET, fnv1a)
}

fn describe(entry: &ActorEntry) -> String {
    let mut line = format!("actor {} {}", entry.full_name(), entry.place);
    for constructor in entry.constructors {
        line.push_str(&format!(" {}", constructor.name));
    }
    describe_methods(&mut line, entry.methods);
    line
}

fn describe_extension(extension: &'static Extension) -> String {
    let mut line = format!("extension {}", extension.key());
    describe_methods(&mut line, extension.methods);
    line
}

fn describe_methods(line: &mut String, methods: &[MethodEntry]) {
    for method in methods {
        line.push_str(&format!(" {}({})", method.name, method.params.len()));
    }
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
