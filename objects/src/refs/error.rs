//! Errors of references.

use selvedge_cluster::peer::Peer;
use thiserror::Error;

use super::RefId;

/// The reason why a reference cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum RefError {
    /// No handle of the reference is held here.
    #[error("{0} was dropped here: keep a clone of it for as long as it is used")]
    NotHeld(RefId),
    /// The reference was made by another runtime of this process.
    #[error("{0} belongs to another runtime: pass it to the workers of the runtime that has made it")]
    Foreign(RefId),
    /// The object is lost.
    #[error("{0} is lost: its owner or the process that passed it has died")]
    Lost(RefId),
    /// The other process is dead.
    #[error("{0} is dead: choose another process")]
    Dead(Peer),
    /// A process does not pass references to itself.
    #[error("{0} is this process: use the reference itself")]
    ToItself(Peer),
    /// The object was freed, since nobody holds a reference to it.
    #[error("{0} was freed: nobody waits for its value, so drop it")]
    Freed(RefId),
    /// The object has its value already, or an error in its place.
    #[error("{0} was set already: a value is set only once")]
    AlreadySet(RefId),
    /// The owner has not confirmed in time that it keeps the result.
    #[error(
        "the creation of {0} timed out, and the object may not exist: see whether the owner runs, or give it more time with \
         `RefSettings::create_timeout`"
    )]
    CreateTimedOut(RefId),
    /// A process has too many entries here.
    #[error(
        "{peer} has {entries} registrations, references and questions open here, of {limit} allowed: drop references, or \
         raise `RefSettings::entries_max`"
    )]
    TooMany {
        /// The process that the entries are about.
        peer: Peer,
        /// The number of the entries.
        entries: usize,
        /// The number that is allowed.
        limit: usize,
    },
    /// The process shuts down.
    #[error("{0} shuts down, and takes and passes no references any more: use another process")]
    Ending(Peer),
}
