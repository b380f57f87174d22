//! Names, by which unrelated processes find a channel. A name is a file with the descriptor, which stays locked as long
//! as the name is published.
//!
//! The kernel releases the lock when the process that holds it ends, for whatever reason. So an unlocked file belongs
//! to a dead process, and the next process that publishes a name removes it. A process that finds the file before that
//! learns that the channel is gone.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::channel::Descriptor;
use crate::error::ChannelError;
use crate::memory::made_in::MadeIn;

const PREFIX: &str = "selvedge-channel-";
const NAME_MAX: usize = 100;
/// The number of attempts to lock a file. A process that sweeps holds a lock for some microseconds.
const ATTEMPTS: u32 = 20;
/// The largest number of bytes that are read from a name's file. Every descriptor is shorter.
const DESCRIPTOR_MAX: u64 = 400;

/// A published name, by which a channel can be found. Dropping it removes the name.
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
    _locked: File,
    made_in: MadeIn,
}

fn refuse(name: &str, what: &'static str) -> ChannelError {
    ChannelError::Name {
        name: name.chars().take(NAME_MAX).collect(),
        what,
    }
}

/// The path of a name's file: in the user's folder of run-time files, or else in `/dev/shm`, where the user's number
/// keeps the names of users apart.
fn path_of(name: &str) -> Result<PathBuf, ChannelError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(allowed) {
        return Err(refuse(
            name,
            "a name has 1 to 100 letters, digits, `-`, `_` and `.`",
        ));
    }
    Ok(folder().join(format!("{}{name}", prefix())))
}

fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|folder| folder.is_dir())
        .unwrap_or_else(|| "/dev/shm".into())
}

fn prefix() -> String {
    format!("{PREFIX}{}-", rustix::process::getuid().as_raw())
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600);
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// Whether the path still names this very file: a process that sweeps may have removed it.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = |of: io::Result<fs::Metadata>| of.ok().map(|of| (of.dev(), of.ino()));
    let there = inode(fs::symlink_metadata(path));
    there.is_some() && inode(file.metadata()) == there
}

/// The properties of the file at a name's path. Any user may have put a file there.
#[derive(Clone, Copy)]
struct NameFile {
    is_own: bool,
    is_file: bool,
    names: u64,
}

impl NameFile {
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(NameFile {
            is_own: found.uid() == rustix::process::getuid().as_raw(),
            is_file: found.is_file(),
            names: found.nlink(),
        })
    }

    /// Checks that a descriptor may be written to the file; the error is the reason against it.
    fn may_be_written(self) -> Result<(), &'static str> {
        match self {
            NameFile { is_own: false, .. } => Err("its file is another user's, who has put it there"),
            // A write would reach something other than a file.
            NameFile { is_file: false, .. } => Err("what is in place of its file is no file"),
            NameFile { names: 1, .. } => Ok(()),
            _ => Err("its file has other names"),
        }
    }
}

/// Publishes a descriptor under a name.
pub(crate) fn publish(name: &str, descriptor: &Descriptor) -> Result<Published, ChannelError> {
    let path = path_of(name)?;
    sweep(&path);
    let failed = |_| refuse(name, "its file cannot be written");
    for _ in 0..ATTEMPTS {
        let mut file = open(&path, true).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The file was swept between the open and the lock.
            Ok(()) if !is_at(&file, &path) => continue,
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                std::thread::yield_now();
                continue;
            }
            Err(_) => return Err(refuse(name, "its file cannot be locked")),
        }
        let found = NameFile::of(&file).map_err(failed)?;
        found.may_be_written().map_err(|what| refuse(name, what))?;
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{descriptor}"));
        written.map_err(failed)?;
        return Ok(Published {
            path,
            _locked: file,
            made_in: MadeIn::here(),
        });
    }
    Err(refuse(name, "somebody else has it"))
}

/// The descriptor that a process publishes under a name.
pub(crate) fn find(name: &str) -> Result<Descriptor, ChannelError> {
    let nobody = || refuse(name, "nobody publishes it");
    let file = open(&path_of(name)?, false).map_err(|_| nobody())?;
    if !NameFile::of(&file).map_err(|_| nobody())?.is_own {
        return Err(refuse(name, "it is another user's"));
    }
    let mut text = String::new();
    let read = (&file).take(DESCRIPTOR_MAX).read_to_string(&mut text);
    // The file is empty for a moment before the descriptor is written, and holds no descriptor if another program has
    // put it there.
    read.ok().and_then(|_| text.parse().ok()).ok_or_else(nobody)
}

/// Removes the files that dead processes have left. Best effort: files that cannot be read or removed stay.
fn sweep(own: &Path) {
    let Ok(entries) = fs::read_dir(folder()) else {
        return;
    };
    let prefix = prefix();
    for entry in entries.flatten() {
        let path = entry.path();
        if path == own || !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        let Ok(file) = open(&path, false) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &path) {
            let _ = fs::remove_file(&path);
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // The file is removed while it is still locked, so that it cannot be the file of another process.
        if self.made_in.is_here() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chan_24_only_an_own_file_of_one_name_is_written() {
        let own = NameFile {
            is_own: true,
            is_file: true,
            names: 1,
        };
        assert_eq!(own.may_be_written(), Ok(()));
        let foreign = NameFile { is_own: false, ..own };
        let refused = foreign.may_be_written().expect_err("somebody else's");
        assert!(refused.contains("another user's"), "{refused}");
        assert!(
            NameFile {
                is_file: false,
                ..own
            }
            .may_be_written()
            .is_err()
        );
        assert!(NameFile { names: 2, ..own }.may_be_written().is_err());
    }
}
