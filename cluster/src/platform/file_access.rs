//! The users that may read a file.

use std::fs::Metadata;

/// The permissions of a file, if users other than its owner have any; the owner's are among them.
#[cfg(unix)]
pub(crate) fn shared_mode(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// The permissions of a file, if users other than its owner have any. The system has none that can be read so.
#[cfg(not(unix))]
pub(crate) fn shared_mode(_: &Metadata) -> Option<u32> {
    None
}
