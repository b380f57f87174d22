//! Locks of the files that processes map: refused, as their mappings are.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A file that is locked: there is none.
#[derive(Debug)]
pub enum LockedFile {}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        match *self {}
    }
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn lock_to_make(_: File, _: bool) -> io::Result<Option<LockedFile>> {
    Err(io::ErrorKind::Unsupported.into())
}
