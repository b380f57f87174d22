//! Files whose bytes processes share: refused.

use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use super::file_lock::LockedFile;
use crate::error::SegmentError;

/// The name of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {}

/// A file that is mapped.
pub(crate) enum MappedFile {}

impl MappedFile {
    pub(crate) fn new(_: LockedFile, _: usize, _: bool) -> Result<Self, SegmentError> {
        Err(SegmentError::Unsupported)
    }

    pub(crate) fn id(&self) -> FileId {
        match *self {}
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        match *self {}
    }

    pub(crate) fn is_writable(&self) -> bool {
        match *self {}
    }
}

/// A file that another process has mapped.
pub(crate) enum LentFile {}

impl LentFile {
    pub(crate) fn open(_: &FileId) -> Result<Self, SegmentError> {
        Err(SegmentError::Unsupported)
    }

    pub(crate) fn map(self, _: usize) -> Result<MappedFile, SegmentError> {
        match self {}
    }
}
