//! Errors of aliases.

use thiserror::Error;

use crate::refs::RefId;

/// The reason why a reference cannot become an alias, or cannot be resolved. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum AliasError {
    /// A reference was to stand for itself.
    #[error("{0} cannot stand for itself: return another reference, or the value")]
    SelfAlias(RefId),
    /// The reference stands for another one, or has a value of its own.
    #[error("{0} has a value or a target already: a function returns once")]
    AlreadyAliased(RefId),
    /// A reference that stands for another one was to get a value of its own.
    #[error("{0} stands for another reference, so it has no value of its own")]
    NotCanonical(RefId),
    /// The table has no such reference.
    #[error("{0} is not known at its owner: it was freed, or never made")]
    Unknown(RefId),
    /// The target stands for the reference itself, so neither would ever have a value.
    #[error(
        "{alias} cannot stand for {target}, which stands for {alias}: neither would have a value (help: return a \
         reference that does not wait for this function)"
    )]
    Cycle {
        /// The reference that was to be an alias.
        alias: RefId,
        /// The reference that it was to stand for.
        target: RefId,
    },
    /// Other references stand for this one, and hold it.
    #[error("{0} cannot be removed: other references stand for it")]
    HasAliases(RefId),
}
