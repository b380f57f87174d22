//! The weights of a folder: one safetensors file, or several with an index, mapped into memory and read in slices.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use safetensors::tensor::Dtype;
use serde::Deserialize;

use crate::error::LoadError;
use crate::shard::{Entry, Shard};

/// The number of names that an error proposes.
const NEAREST: usize = 3;

const ONE_FILE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// The files that PyTorch writes instead.
const PICKLED: [&str; 2] = ["pytorch_model.bin", "pytorch_model.bin.index.json"];

/// The part of a tensor that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The whole tensor.
    Whole,
    /// Part `part` of `parts` equal parts along the first dimension.
    Rows {
        /// The index of the part, from 0.
        part: usize,
        /// The number of parts, at least 1; it divides the dimension.
        parts: usize,
    },
    /// Part `part` of `parts` equal parts along the second dimension.
    Columns {
        /// The index of the part, from 0.
        part: usize,
        /// The number of parts, at least 1; it divides the dimension.
        parts: usize,
    },
}

/// The weights of a folder; a tensor is read only on request.
#[derive(Debug)]
pub struct Weights {
    /// The file that lists the tensors.
    path: PathBuf,
    shards: Vec<Shard>,
    /// The shard of each tensor.
    names: BTreeMap<String, usize>,
    read_bytes: Cell<u64>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Maps the files of a folder and reads their headers.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`], [`LoadError::Pickled`], [`LoadError::Malformed`], [`LoadError::Truncated`],
    /// [`LoadError::Missing`] if a file lacks a tensor of the index.
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let index = folder.join(INDEX);
        if !folder.join(ONE_FILE).exists() && index.exists() {
            return Weights::open_index(folder, index);
        }
        let path = folder.join(ONE_FILE);
        let pickled = PICKLED.iter().map(|name| folder.join(name));
        if let (false, Some(found)) = (path.exists(), pickled.into_iter().find(|file| file.exists())) {
            return Err(LoadError::Pickled { path: found });
        }
        let shard = Shard::open(&path)?;
        let names = shard.names().map(|name| (name.to_owned(), 0)).collect();
        Ok(Weights::over(path, vec![shard], names))
    }

    fn open_index(folder: &Path, path: PathBuf) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(&path).map_err(|error| LoadError::Unreadable {
            path: path.clone(),
            error,
        })?;
        let index: Index = serde_json::from_str(&text).map_err(|error| LoadError::Malformed {
            path: path.clone(),
            message: error.to_string(),
        })?;
        let mut files: Vec<&String> = index.weight_map.values().collect();
        files.sort();
        files.dedup();
        let shards = files.iter().map(|file| Shard::open(&folder.join(file)));
        let shards = shards.collect::<Result<Vec<_>, _>>()?;
        let place = |file: &String| files.iter().position(|other| *other == file).unwrap_or_default();
        let names = index
            .weight_map
            .iter()
            .map(|(name, file)| (name.clone(), place(file)));
        Ok(Weights::over(path, shards, names.collect()))
    }

    fn over(path: PathBuf, shards: Vec<Shard>, names: BTreeMap<String, usize>) -> Self {
        Weights {
            path,
            shards,
            names,
            read_bytes: Cell::new(0),
        }
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Returns the bytes of tensors that were read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Checks that the tensor exists with this shape and with supported elements. Reads none of its bytes.
    ///
    /// # Errors
    /// [`LoadError::Missing`], [`LoadError::Quantized`], [`LoadError::Shape`], [`LoadError::Elements`].
    pub fn check(&self, tensor: &str, shape: &[usize]) -> Result<(), LoadError> {
        self.find(tensor, shape).map(|_| ())
    }

    /// Checks that every tensor of every file is among those that are `read`.
    ///
    /// # Errors
    /// [`LoadError::Unread`], with all names of the first file that has others.
    pub(crate) fn check_unread(&self, read: impl Fn(&str) -> bool) -> Result<(), LoadError> {
        self.shards.iter().try_for_each(|shard| {
            let unread = shard.names().filter(|name| !read(name));
            let tensors: Vec<String> = unread.map(str::to_owned).collect();
            if tensors.is_empty() {
                return Ok(());
            }
            let path = shard.path().to_owned();
            Err(LoadError::Unread { path, tensors })
        })
    }

    /// Reads a part of a tensor as `f32`, and no other bytes.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub fn read(&self, tensor: &str, shape: &[usize], cut: Cut) -> Result<Tensor, LoadError> {
        let (shard, entry) = self.find(tensor, shape)?;
        let (ranges, part) = ranges(shape, cut);
        let mut values = Vec::with_capacity(part.iter().product());
        for range in ranges {
            let bytes = shard.elements(entry, range);
            self.read_bytes.set(self.read_bytes.get() + bytes.len() as u64);
            append(&mut values, entry.dtype, bytes);
        }
        Ok(Tensor::from_vec(values, part, &Device::Cpu)?)
    }

    fn find(&self, tensor: &str, shape: &[usize]) -> Result<(&Shard, &Entry), LoadError> {
        let shard = self.names.get(tensor).and_then(|shard| self.shards.get(*shard));
        let Some(shard) = shard else {
            return Err(missing(&self.path, tensor, self.names()));
        };
        let Some(entry) = shard.entry(tensor) else {
            return Err(missing(shard.path(), tensor, shard.names()));
        };
        let (path, tensor) = (shard.path().to_owned(), tensor.to_owned());
        if entry.shape != shape {
            return Err(LoadError::Shape {
                path,
                tensor,
                expected: shape.to_vec(),
                found: entry.shape.clone(),
            });
        }
        if !matches!(entry.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let found = entry.dtype.to_string();
            return Err(LoadError::Elements { path, tensor, found });
        }
        Ok((shard, entry))
    }
}

fn missing<'n>(path: &Path, tensor: &str, names: impl Iterator<Item = &'n str>) -> LoadError {
    // The similarity favours a common prefix: other tensors of the same layer are nearer than the same tensor of
    // another layer.
    let mut names: Vec<&str> = names.collect();
    let quantized = tensor
        .strip_suffix("weight")
        .map(|start| format!("{start}qweight"));
    if let Some(found) = quantized.filter(|name| names.contains(&name.as_str())) {
        let path = path.to_owned();
        return LoadError::Quantized { path, found };
    }
    let likeness = |name: &str| strsim::jaro_winkler(name, tensor);
    // Equal ones are sorted by name, so that the same file gives the same text.
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
    LoadError::Missing {
        path: path.to_owned(),
        tensor: tensor.to_owned(),
        nearest: names.into_iter().take(NEAREST).map(str::to_owned).collect(),
    }
}

/// Returns the elements of a cut as ranges in row-major order, and the shape of the cut: it takes the same part of each
/// of `lines` stretches of elements.
fn ranges(shape: &[usize], cut: Cut) -> (impl Iterator<Item = Range<usize>>, Vec<usize>) {
    let all: usize = shape.iter().product();
    let (dimension, part, parts) = match cut {
        Cut::Whole => (0, 0, 1),
        Cut::Rows { part, parts } => (0, part, parts.max(1)),
        Cut::Columns { part, parts } => (1, part, parts.max(1)),
    };
    let lines: usize = shape.iter().take(dimension).product();
    let line = all / lines.max(1);
    let each = line / parts;
    let ranges = (0..lines).map(move |index| {
        let from = index * line + part * each;
        from..from + each
    });
    let mut cut_shape = shape.to_vec();
    if let Some(size) = cut_shape.get_mut(dimension) {
        *size /= parts;
    }
    (ranges, cut_shape)
}

/// Appends little-endian elements as `f32`.
fn append(values: &mut Vec<f32>, dtype: Dtype, bytes: &[u8]) {
    let (pairs, fours) = (bytes.as_chunks::<2>().0, bytes.as_chunks::<4>().0);
    match dtype {
        Dtype::F16 => values.extend(pairs.iter().map(|pair| half::f16::from_le_bytes(*pair).to_f32())),
        Dtype::BF16 => values.extend(pairs.iter().map(|pair| half::bf16::from_le_bytes(*pair).to_f32())),
        _ => values.extend(fours.iter().map(|four| f32::from_le_bytes(*four))),
    }
}
