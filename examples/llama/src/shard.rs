//! One safetensors file: eight bytes of length, a header in JSON, then the bytes of the tensors.
//!
//! Opening checks everything in the header against the file's length once; reading relies on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, TensorInfo};
use serde_json::Value;

use crate::error::LoadError;

/// The bytes in front of the header.
const LENGTH: usize = 8;

/// The header's entry for a tensor.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The range of the bytes in the file.
    bytes: Range<usize>,
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Shard {
    path: PathBuf,
    map: Mmap,
    entries: BTreeMap<String, Entry>,
}

impl Shard {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |error| LoadError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let file = File::open(path).map_err(unreadable)?;
        let map = map(&file).map_err(unreadable)?;
        let entries = Header { path, file: &map }.entries()?;
        let path = path.to_owned();
        Ok(Shard { path, map, entries })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn entry(&self, tensor: &str) -> Option<&Entry> {
        self.entries.get(tensor)
    }

    /// Returns the bytes of some elements; no bytes if they are outside the tensor.
    pub(crate) fn elements(&self, entry: &Entry, elements: Range<usize>) -> &[u8] {
        let size = entry.dtype.bitsize() / 8;
        let whole = self.map.get(entry.bytes.clone()).unwrap_or_default();
        whole
            .get(elements.start * size..elements.end * size)
            .unwrap_or_default()
    }
}

#[allow(unsafe_code)] // the file is mapped
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is read only while a model is loaded, by copying bytes of which every pattern is a valid number.
    // So a file that another process overwrites in the meantime gives wrong weights, and nothing worse. A file that
    // another process truncates in the meantime ends this process by a signal, as with every program that maps its
    // model.
    unsafe { Mmap::map(file) }
}

/// The beginning of a file, not yet checked.
struct Header<'f> {
    path: &'f Path,
    file: &'f [u8],
}

impl Header<'_> {
    fn malformed(&self, message: impl ToString) -> LoadError {
        LoadError::Malformed {
            path: self.path.to_owned(),
            message: message.to_string(),
        }
    }

    fn truncated(&self, tensor: &str, expected: usize) -> LoadError {
        LoadError::Truncated {
            path: self.path.to_owned(),
            tensor: tensor.to_owned(),
            expected: expected as u64,
            found: self.file.len() as u64,
        }
    }

    fn entries(&self) -> Result<BTreeMap<String, Entry>, LoadError> {
        let Some(length) = self.file.first_chunk::<LENGTH>() else {
            return Err(self.truncated("(the header)", LENGTH));
        };
        let begin = usize::try_from(u64::from_le_bytes(*length)).ok();
        let begin = begin.and_then(|length| length.checked_add(LENGTH));
        let begin = begin.ok_or_else(|| self.malformed("its header has no length"))?;
        let Some(header) = self.file.get(LENGTH..begin) else {
            return Err(self.truncated("(the header)", begin));
        };
        let mut header: BTreeMap<String, Value> =
            serde_json::from_slice(header).map_err(|error| self.malformed(error))?;
        header.remove("__metadata__");
        let mut entries = BTreeMap::new();
        for (name, value) in header {
            let info = serde_json::from_value(value);
            let info = info.map_err(|error| self.malformed(format!("tensor `{name}`: {error}")))?;
            let entry = self.entry(&name, info, begin)?;
            entries.insert(name, entry);
        }
        self.check_end(&entries)?;
        Ok(entries)
    }

    fn entry(&self, name: &str, info: TensorInfo, begin: usize) -> Result<Entry, LoadError> {
        let (from, to) = info.data_offsets;
        let count = info
            .shape
            .iter()
            .try_fold(1_usize, |product, size| product.checked_mul(*size));
        let bits = count.and_then(|count| count.checked_mul(info.dtype.bitsize()));
        let (from, to) = (from.checked_add(begin), to.checked_add(begin));
        match (from, to, bits) {
            (Some(from), Some(to), Some(bits)) if from.checked_add(bits / 8) == Some(to) => Ok(Entry {
                dtype: info.dtype,
                shape: info.shape,
                bytes: from..to,
            }),
            _ => Err(self.malformed(format!("the offsets of tensor `{name}` do not fit its shape"))),
        }
    }

    /// Checks the file's length; the error names the first tensor that is cut off.
    fn check_end(&self, entries: &BTreeMap<String, Entry>) -> Result<(), LoadError> {
        let beyond = |entry: &Entry| entry.bytes.end > self.file.len();
        let cut = entries.iter().filter(|(_, entry)| beyond(entry));
        match cut.min_by_key(|(_, entry)| entry.bytes.start) {
            Some((name, entry)) => Err(self.truncated(name, entry.bytes.end)),
            None => Ok(()),
        }
    }
}
