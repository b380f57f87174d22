//! A dense array of numbers: row-major, contiguous, its bytes on a 64-byte boundary.
#![allow(unsafe_code)] // owns raw aligned memory

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::collector;
use super::element::{Element, bytes_of, cast_slice};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
#[non_exhaustive]
pub enum DType {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl DType {
    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 => 8,
        }
    }
}

/// Why a tensor could not be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The shape does not hold as many elements as were given.
    #[error("shape {shape:?} holds {expected:?} elements, {found} were given")]
    Shape {
        /// The shape asked for.
        shape: Vec<usize>,
        /// Elements of that shape; `None` when that overflows.
        expected: Option<usize>,
        /// Elements given.
        found: usize,
    },
    /// The elements are of another type.
    #[error("the tensor holds {found:?}, not {expected:?}")]
    DType {
        /// The type asked for.
        expected: DType,
        /// The tensor's type.
        found: DType,
    },
}

/// Bytes on a 64-byte boundary, immutable once shared.
pub(crate) struct Bytes64 {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: owns its allocation; immutable once behind an `Arc`.
unsafe impl Send for Bytes64 {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes64 {}

impl Bytes64 {
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), 64).ok()
    }

    /// A copy of `bytes`; `None` when there is no memory.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let layout = Self::layout(bytes.len())?;
        // SAFETY: the layout's size is at least one.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: `base` has room for `bytes.len()` bytes and is fresh, so nothing overlaps.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.as_ptr(), bytes.len()) };
        Some(Bytes64 {
            base,
            len: bytes.len(),
        })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes from `base`, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Bytes64 {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout in `copy_of`, freed only here.
            unsafe { dealloc(self.base.as_ptr(), layout) }
        }
    }
}

enum Storage {
    Owned(Arc<Bytes64>),
    /// Bytes of a slot. Such a tensor lives only inside the value that holds the slot and leaves it only as
    /// `&Tensor`; a clone is a copy on the heap.
    Borrowed(*const [u8]),
}

// SAFETY: `Borrowed` points to bytes that nobody writes while the value that owns this tensor holds its slot.
unsafe impl Send for Storage {}
// SAFETY: as for `Send`: shared reads only.
unsafe impl Sync for Storage {}

/// A dense array of numbers. Clones share the bytes.
///
/// As a `&Tensor` argument of a method in another process it is a view of the slot; as part of another value it is
/// copied out of the slot once.
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    storage: Storage,
}

/// Shape and type as they travel in the head, with the index of the part.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    dtype: DType,
    shape: Vec<usize>,
    part: u32,
}

fn elements(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, dimension| product.checked_mul(*dimension))
}

impl Head {
    fn fits(&self, len_bytes: usize) -> bool {
        elements(&self.shape).and_then(|count| count.checked_mul(self.dtype.size_bytes())) == Some(len_bytes)
    }
}

impl Tensor {
    /// A tensor over a copy of `values`, on a 64-byte boundary.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not hold exactly `values.len()` elements.
    pub fn from_slice<E: Element>(values: &[E], shape: &[usize]) -> Result<Tensor, TensorError> {
        let expected = elements(shape);
        let refused = || TensorError::Shape {
            shape: shape.to_vec(),
            expected,
            found: values.len(),
        };
        if expected != Some(values.len()) {
            return Err(refused());
        }
        let bytes = Bytes64::copy_of(bytes_of(values)).ok_or_else(refused)?;
        Ok(Tensor {
            dtype: E::DTYPE,
            shape: shape.to_vec(),
            storage: Storage::Owned(Arc::new(bytes)),
        })
    }

    /// A tensor of `values`.
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn from_vec<E: Element>(values: Vec<E>, shape: &[usize]) -> Result<Tensor, TensorError> {
        Tensor::from_slice(&values, shape)
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when the shape overflows.
    pub fn zeros<E: Element>(shape: &[usize]) -> Result<Tensor, TensorError> {
        let count = elements(shape);
        let refused = TensorError::Shape {
            shape: shape.to_vec(),
            expected: count,
            found: 0,
        };
        let count = count.ok_or(refused)?;
        Tensor::from_vec(vec![E::default(); count], shape)
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes.as_slice(),
            // SAFETY: valid while the value that owns this tensor holds its slot, which outlives `&self`.
            Storage::Borrowed(bytes) => unsafe { &**bytes },
        }
    }

    /// Its elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::DType`] when they are of another type.
    pub fn as_slice<E: Element>(&self) -> Result<&[E], TensorError> {
        let wrong = TensorError::DType {
            expected: E::DTYPE,
            found: self.dtype,
        };
        if self.dtype != E::DTYPE {
            return Err(wrong);
        }
        cast_slice::<E>(self.bytes()).ok_or(wrong)
    }

    /// A copy of its elements, row-major.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>, TensorError> {
        Ok(self.as_slice::<E>()?.to_vec())
    }

    pub(super) fn owned(head: Head, bytes: Arc<Bytes64>) -> Option<Tensor> {
        let fits = head.fits(bytes.as_slice().len());
        fits.then(|| Tensor {
            dtype: head.dtype,
            shape: head.shape,
            storage: Storage::Owned(bytes),
        })
    }

    /// A tensor over bytes that somebody else keeps.
    ///
    /// # Safety
    /// `bytes` must stay valid and unwritten as long as the tensor exists, so it must not be moved out of the value
    /// that holds the slot.
    pub(super) unsafe fn borrowed(head: Head, bytes: &[u8]) -> Option<Tensor> {
        let aligned = bytes.as_ptr().addr().is_multiple_of(64);
        let fits = head.fits(bytes.len()) && head.part == 0 && aligned;
        fits.then(|| Tensor {
            dtype: head.dtype,
            shape: head.shape,
            storage: Storage::Borrowed(bytes),
        })
    }

    pub(super) fn head(&self, part: u32) -> Head {
        Head {
            dtype: self.dtype,
            shape: self.shape.clone(),
            part,
        }
    }

    fn part(&self) -> Option<Arc<Bytes64>> {
        match &self.storage {
            Storage::Owned(bytes) => Some(Arc::clone(bytes)),
            Storage::Borrowed(_) => Bytes64::copy_of(self.bytes()).map(Arc::new),
        }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        let storage = match &self.storage {
            Storage::Owned(bytes) => Storage::Owned(Arc::clone(bytes)),
            Storage::Borrowed(_) => match self.part() {
                Some(bytes) => Storage::Owned(bytes),
                // As every clone of a Vec does when there is no memory.
                None => std::alloc::handle_alloc_error(Layout::new::<u8>()),
            },
        };
        Tensor {
            dtype: self.dtype,
            shape: self.shape.clone(),
            storage,
        }
    }
}

impl PartialEq for Tensor {
    /// Equal type, shape and bytes: unlike `f32`, a NaN equals itself and 0.0 differs from -0.0.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{:?}, {:?}>", self.dtype, self.shape)
    }
}

impl Serialize for Tensor {
    /// Out of band inside an edge's payload; in line, with its bytes, for readable formats.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return (self.dtype, &self.shape, self.bytes()).serialize(serializer);
        }
        let part = self
            .part()
            .ok_or_else(|| S::Error::custom("no memory for a tensor"))?;
        let index = collector::push(&part);
        let index = index.ok_or_else(|| S::Error::custom("a tensor travels in a payload of an edge only"))?;
        self.head(index).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let (dtype, shape, bytes) = <(DType, Vec<usize>, Vec<u8>)>::deserialize(deserializer)?;
            let part = Bytes64::copy_of(&bytes).ok_or_else(|| D::Error::custom("no memory for a tensor"))?;
            let tensor = Tensor::owned(
                Head {
                    dtype,
                    shape,
                    part: 0,
                },
                Arc::new(part),
            );
            return tensor.ok_or_else(|| D::Error::custom("a tensor's shape does not fit its bytes"));
        }
        let head = Head::deserialize(deserializer)?;
        let part =
            collector::take(head.part).ok_or_else(|| D::Error::custom("a tensor without its bytes"))?;
        Tensor::owned(head, part).ok_or_else(|| D::Error::custom("a tensor's shape does not fit its bytes"))
    }
}
