//! The file of a log. A head that begins writes a new file with a summary, which takes the name of the old one when it is whole; so
//! does a head whose log has grown.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use selvedge_cluster::peer::Incarnation;

use super::error::{HeadLogCause, HeadLogError};
use super::record::HeadRecord;
use super::replay::{LogHeader, batch, beginning, replay};
use super::state::HeadState;

/// A log is not summed up before it has so many bytes, and four times those of its last summary.
const GROWN_BYTES: u64 = 64 << 10;
const GROWN_FACTOR: u64 = 4;

/// The log of a head, open for its next decisions.
pub(crate) struct LogFile {
    path: PathBuf,
    /// Locked as long as this process has the log.
    _lock: File,
    file: File,
    header: LogHeader,
    state: HeadState,
    bytes: u64,
    /// The length at which the log is summed up.
    grown_at: u64,
}

impl LogFile {
    /// Opens the log at a path, which is begun if it is not there, for the next life of a head. Whatever `header` says of the
    /// cluster's id, an old log keeps its own.
    ///
    /// # Errors
    /// [`HeadLogError`].
    pub(crate) fn open(path: &Path, header: LogHeader) -> Result<Self, HeadLogError> {
        Self::opened(path, header).map_err(|cause| HeadLogError {
            path: path.to_owned(),
            cause,
        })
    }

    fn opened(path: &Path, ours: LogHeader) -> Result<Self, HeadLogCause> {
        let lock = locked(&beside(path, ".lock"))?;
        let (header, state) = match std::fs::read(path) {
            Ok(bytes) => {
                let old = replay(&bytes, |found| check(found, &ours))?;
                (old.header, old.state)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (ours, HeadState::new()),
            Err(error) => return Err(HeadLogCause::io("it cannot be read")(error)),
        };
        let mut state = state;
        let begins = Incarnation(state.head.0.saturating_add(1));
        let begun = state.step(HeadRecord::Began(begins));
        begun.map_err(|error| HeadLogCause::Damaged {
            at: 0,
            why: error.to_string(),
        })?;
        let (file, bytes) = sum_up(path, &header, &state)?;
        Ok(LogFile {
            path: path.to_owned(),
            _lock: lock,
            file,
            header,
            state,
            bytes,
            grown_at: grown_at(bytes),
        })
    }

    pub(crate) fn header(&self) -> &LogHeader {
        &self.header
    }

    /// The outcome of all decisions so far.
    pub(crate) fn state(&self) -> &HeadState {
        &self.state
    }

    /// Adds decisions, all of which are on the disk when this returns, or none is known to be.
    ///
    /// # Errors
    /// [`HeadLogError`]. The log takes no more decisions then.
    pub(super) fn append(&mut self, records: Vec<HeadRecord>) -> Result<(), HeadLogError> {
        self.appended(records).map_err(|cause| HeadLogError {
            path: self.path.clone(),
            cause,
        })
    }

    fn appended(&mut self, records: Vec<HeadRecord>) -> Result<(), HeadLogCause> {
        let bytes = batch(&records).map_err(too_long)?;
        for record in records {
            let stepped = self.state.step(record);
            stepped.map_err(|error| HeadLogCause::Damaged {
                at: self.bytes,
                why: error.to_string(),
            })?;
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.map_err(HeadLogCause::io("it cannot be written"))?;
        self.bytes += bytes.len() as u64;
        if self.bytes >= self.grown_at {
            (self.file, self.bytes) = sum_up(&self.path, &self.header, &self.state)?;
            self.grown_at = grown_at(self.bytes);
        }
        Ok(())
    }
}

fn grown_at(summary: u64) -> u64 {
    GROWN_BYTES.max(summary.saturating_mul(GROWN_FACTOR))
}

/// Another file beside the log.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The lock of a log. The system lets it go with the process.
fn locked(path: &Path) -> Result<File, HeadLogCause> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(HeadLogCause::io("the file of its lock cannot be made"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(HeadLogCause::InUse),
        Err(TryLockError::Error(error)) => Err(HeadLogCause::io("it cannot be locked")(error)),
    }
}

/// Holds a log against the head that wants to go on with it.
fn check(found: &LogHeader, ours: &LogHeader) -> Result<(), HeadLogCause> {
    if found.cluster != ours.cluster {
        return Err(HeadLogCause::OtherCluster {
            found: found.cluster.clone(),
            wanted: ours.cluster.clone(),
        });
    }
    if (&found.build, found.registry) != (&ours.build, ours.registry) {
        let build = |header: &LogHeader| format!("{} ({:016x})", header.build, header.registry);
        return Err(HeadLogCause::OtherBuild {
            found: build(found),
            ours: build(ours),
        });
    }
    Ok(())
}

fn too_long(error: postcard::Error) -> HeadLogCause {
    HeadLogCause::io("its records cannot be encoded")(io::Error::other(error))
}

/// Writes a log anew, with a summary. Returns its file and length.
fn sum_up(path: &Path, header: &LogHeader, state: &HeadState) -> Result<(File, u64), HeadLogCause> {
    let mut bytes = beginning(header).map_err(too_long)?;
    bytes.extend(batch(&[HeadRecord::Summary(state.clone())]).map_err(too_long)?);
    let new = beside(path, ".new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        // The name is on the disk with its directory.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(file)
    };
    let file = write().map_err(HeadLogCause::io("it cannot be written"))?;
    Ok((file, bytes.len() as u64))
}
