//! Locks of the files that processes map.
//!
//! The maker of an array holds a `flock` of the file, exclusive if it writes. Each other process that maps the file holds a lock of one byte,
//! by its own open file description: of the byte 0 if it writes, and of the byte 1 if it reads. So a mapping counts that is still there when
//! the maker has gone. All these locks are shared among the processes of one array, and the next maker looks for them.
#![allow(unsafe_code)] // one system call through libc

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;

/// The bytes of those that write.
const WRITES: libc::off_t = 0;
/// The bytes of those that read.
const READS: libc::off_t = 1;

/// A file that this process has locked for a mapping. The drop takes the locks away, also for a child that was forked a moment ago and has
/// a copy of the descriptor until it runs its program.
#[derive(Debug)]
pub struct LockedFile(File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // There is nobody to tell of an error, and the locks end with the last copy of the descriptor in any case.
        let _ = self.0.unlock();
        let _ = byte_lock(&self.0, libc::F_OFD_SETLK, libc::F_UNLCK, WRITES, READS + 1);
    }
}

/// Locks a file for the maker of an array. Returns `None` if an array has it, in any process, and one of both can write it.
///
/// # Errors
/// Those of the system.
pub fn lock_to_make(file: File, is_writable: bool) -> io::Result<Option<LockedFile>> {
    let locked = match is_writable {
        true => file.try_lock(),
        false => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Mappings that a maker has left. None can come: a process locks its byte while its maker has the `flock`.
    let bytes = if is_writable { READS + 1 } else { WRITES + 1 };
    let file = LockedFile(file);
    let found = byte_lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, 0, bytes)?;
    Ok((i32::from(found.l_type) == libc::F_UNLCK).then_some(file))
}

/// Locks the byte of a process that maps the file of another one's array.
pub(super) fn lock_to_map(file: File, is_writable: bool) -> io::Result<LockedFile> {
    let byte = if is_writable { WRITES } else { READS };
    byte_lock(&file, libc::F_OFD_SETLK, libc::F_RDLCK, byte, 1)?;
    Ok(LockedFile(file))
}

fn byte_lock(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    start: libc::off_t,
    len: libc::off_t,
) -> io::Result<libc::flock> {
    // The numbers of the constants are small.
    #[allow(clippy::cast_possible_truncation)]
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` is a valid `flock` for the whole call, which both commands read or write and do not keep.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of a descriptor plays a child between `fork` and `exec`.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such locks")]
    fn jsa_20_locks_end_with_the_mapping_also_if_a_child_has_a_copy_of_the_descriptor() {
        let path = std::env::temp_dir().join(format!("selvedge-locked-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            options.open(&path).unwrap()
        };
        let made = lock_to_make(open(), true).unwrap().unwrap();
        let copy = made.try_clone().unwrap();
        assert!(lock_to_make(open(), true).unwrap().is_none());
        drop(made);
        let mapped = lock_to_map(open(), true).unwrap();
        let other_copy = mapped.try_clone().unwrap();
        assert!(lock_to_make(open(), true).unwrap().is_none());
        drop(mapped);
        assert!(lock_to_make(open(), true).unwrap().is_some());
        drop((copy, other_copy));
        std::fs::remove_file(path).unwrap();
    }
}
