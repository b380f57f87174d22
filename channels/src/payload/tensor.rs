//! A dense array of numbers: row-major, contiguous, its bytes on a 64-byte boundary.
#![allow(unsafe_code)] // borrows the bytes of a slot

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bytes64::Bytes64;
use super::codec::{is_ours, is_trial};
use super::element::{DType, Element, bytes_of, cast_slice, cast_slice_mut};
use super::layout::{TensorLayout, dense_strides};
use super::{collector, survey};

/// Why a tensor could not be made or read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    /// There is no memory for so many bytes.
    #[error("there is no memory for a tensor of {len_bytes:?} bytes")]
    Memory {
        /// Bytes needed; `None` when that overflows.
        len_bytes: Option<usize>,
    },
}

crate::debug_is_report!(TensorError);

enum Storage {
    Owned(Arc<Bytes64>),
    /// Bytes of a slot. Such a tensor lives only inside the value that holds the slot and leaves it only as
    /// `&Tensor`; a clone is a copy on the heap (`VAL-2`).
    Borrowed(*const [u8]),
}

// SAFETY: `Borrowed` points to bytes that nobody writes while the value that owns this tensor holds its slot.
unsafe impl Send for Storage {}
// SAFETY: as for `Send`: shared reads only.
unsafe impl Sync for Storage {}

/// A dense array of numbers. Clones share the bytes.
///
/// As a `&Tensor` argument of a method in another process it is a view of the slot; as part of another value it is
/// copied out of the slot once. Its bytes are on a 64-byte boundary.
///
/// ```
/// use selvedge_channels::Tensor;
///
/// let mut tensor = Tensor::zeros::<f32>(&[2, 3])?;
/// tensor.as_mut_slice::<f32>()?[4] = 1.0;
/// assert_eq!(tensor.as_slice::<f32>()?, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), selvedge_channels::TensorError>(())
/// ```
pub struct Tensor {
    dtype: DType,
    shape: Arc<[usize]>,
    storage: Storage,
}

/// Shape and type as they travel in the head, with the index of the part.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    dtype: DType,
    shape: Arc<[usize]>,
    part: u32,
}

/// Number of elements of a shape; one for a scalar.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, dimension| product.checked_mul(*dimension))
}

/// Whether a shape holds exactly so many bytes.
fn holds(dtype: DType, shape: &[usize], len_bytes: usize) -> bool {
    count(shape).and_then(|count| count.checked_mul(dtype.size_bytes())) == Some(len_bytes)
}

/// Refuses a shape that does not hold exactly so many bytes.
pub(super) fn check_shape(dtype: DType, shape: &[usize], len_bytes: usize) -> Result<(), TensorError> {
    if holds(dtype, shape, len_bytes) {
        return Ok(());
    }
    Err(TensorError::Shape {
        shape: shape.to_vec(),
        expected: count(shape),
        found: len_bytes / dtype.size_bytes(),
    })
}

fn no_memory(bytes: &[u8]) -> TensorError {
    TensorError::Memory {
        len_bytes: Some(bytes.len()),
    }
}

impl Head {
    /// Of a tensor that is a value by itself.
    pub(super) fn of(dtype: DType, shape: &[usize]) -> Self {
        Head {
            dtype,
            shape: shape.into(),
            part: 0,
        }
    }

    fn fits(&self, len_bytes: usize) -> bool {
        holds(self.dtype, &self.shape, len_bytes)
    }
}

impl Tensor {
    /// A tensor over a copy of `values`; the shape `[]` is a scalar.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not hold exactly `values.len()` elements, [`TensorError::Memory`].
    pub fn from_slice<E: Element>(values: &[E], shape: &[usize]) -> Result<Tensor, TensorError> {
        Tensor::from_raw(E::DTYPE, shape, bytes_of(values))
    }

    /// A tensor of `values`. A `Vec` is not on a 64-byte boundary, so this copies; to fill a large tensor without a
    /// copy, take [`zeros`](Self::zeros) and [`as_mut_slice`](Self::as_mut_slice).
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn from_vec<E: Element>(values: Vec<E>, shape: &[usize]) -> Result<Tensor, TensorError> {
        Tensor::from_slice(&values, shape)
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`TensorError::Memory`] when the shape overflows or there is no memory.
    pub fn zeros<E: Element>(shape: &[usize]) -> Result<Tensor, TensorError> {
        let len_bytes = count(shape).and_then(|count| count.checked_mul(size_of::<E>()));
        let bytes = len_bytes.and_then(Bytes64::zeroed);
        let bytes = bytes.ok_or(TensorError::Memory { len_bytes })?;
        Ok(Tensor::over(E::DTYPE, shape, bytes))
    }

    /// A tensor over a copy of raw row-major bytes, of any type of elements.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not hold exactly as many elements, [`TensorError::Memory`].
    pub fn from_raw(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        check_shape(dtype, shape, bytes.len())?;
        let copy = Bytes64::copy_of(bytes).ok_or_else(|| no_memory(bytes))?;
        Ok(Tensor::over(dtype, shape, copy))
    }

    /// A tensor of any type of elements, whose row-major bytes `fill` writes over zeros.
    ///
    /// # Errors
    /// [`TensorError::Memory`] when the shape overflows or there is no memory.
    pub fn filled(
        dtype: DType,
        shape: impl Into<Arc<[usize]>>,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Tensor, TensorError> {
        let shape = shape.into();
        let len_bytes = count(&shape).and_then(|count| count.checked_mul(dtype.size_bytes()));
        let mut bytes = len_bytes.and_then(Bytes64::zeroed);
        if let Some(bytes) = bytes.as_mut().and_then(Bytes64::as_mut_slice) {
            fill(bytes);
        }
        let bytes = bytes.ok_or(TensorError::Memory { len_bytes })?;
        Ok(Tensor::over(dtype, shape, bytes))
    }

    /// A tensor over row-major bytes of somebody else, which `keeper` keeps: it is dropped with the last clone. `None`
    /// where the bytes are not on a 64-byte boundary.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not hold exactly so many bytes.
    ///
    /// # Safety
    /// The bytes must be valid and unwritten for as long as `keeper` exists, wherever it is moved.
    pub unsafe fn from_kept(
        dtype: DType,
        shape: impl Into<Arc<[usize]>>,
        bytes: *const [u8],
        keeper: Box<dyn Any + Send + Sync>,
    ) -> Result<Option<Tensor>, TensorError> {
        let shape = shape.into();
        check_shape(dtype, &shape, bytes.len())?;
        // SAFETY: as the caller promises.
        let kept = unsafe { Bytes64::kept(bytes, keeper) };
        Ok(kept.map(|kept| Tensor::over(dtype, shape, kept)))
    }

    pub(super) fn over(dtype: DType, shape: impl Into<Arc<[usize]>>, bytes: Bytes64) -> Tensor {
        Tensor {
            dtype,
            shape: shape.into(),
            storage: Storage::Owned(Arc::new(bytes)),
        }
    }

    /// A tensor of truth values, a byte each.
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor, TensorError> {
        let bytes: Vec<u8> = values.iter().map(|value| u8::from(*value)).collect();
        Tensor::from_raw(DType::Bool, shape, &bytes)
    }

    /// Its truth values, row-major; every byte but 0 is true. Decoded, because a byte of another process may be any.
    ///
    /// # Errors
    /// [`TensorError::DType`] when it holds none.
    pub fn to_bools(&self) -> Result<Vec<bool>, TensorError> {
        if self.dtype != DType::Bool {
            return Err(TensorError::DType {
                expected: DType::Bool,
                found: self.dtype,
            });
        }
        Ok(self.bytes().iter().map(|byte| *byte != 0).collect())
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements from one index of each dimension to the next: those of a row-major, contiguous array.
    pub fn strides(&self) -> Vec<usize> {
        dense_strides(&self.shape)
    }

    /// Its number of elements.
    pub fn len(&self) -> usize {
        self.bytes().len() / self.dtype.size_bytes()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Its bytes, row-major.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes.as_slice(),
            // SAFETY: valid while the value that owns this tensor holds its slot, which outlives `&self`.
            Storage::Borrowed(bytes) => unsafe { &**bytes },
        }
    }

    fn check<E: Element>(&self) -> Result<(), TensorError> {
        if self.dtype == E::DTYPE {
            return Ok(());
        }
        Err(self.wrong::<E>())
    }

    #[cold]
    fn wrong<E: Element>(&self) -> TensorError {
        TensorError::DType {
            expected: E::DTYPE,
            found: self.dtype,
        }
    }

    /// Its elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::DType`] when they are of another type.
    #[inline]
    pub fn as_slice<E: Element>(&self) -> Result<&[E], TensorError> {
        self.check::<E>()?;
        cast_slice::<E>(self.bytes()).ok_or_else(|| self.wrong::<E>())
    }

    /// Its elements, row-major, to be written. Where clones share the bytes, they are copied first.
    ///
    /// # Errors
    /// [`TensorError::DType`] when they are of another type, [`TensorError::Memory`].
    pub fn as_mut_slice<E: Element>(&mut self) -> Result<&mut [E], TensorError> {
        self.check::<E>()?;
        let wrong = self.wrong::<E>();
        let writable = match &mut self.storage {
            Storage::Owned(bytes) => Arc::get_mut(bytes).is_some_and(|bytes| bytes.as_mut_slice().is_some()),
            Storage::Borrowed(_) => false,
        };
        if !writable {
            let copy = Bytes64::copy_of(self.bytes()).ok_or_else(|| no_memory(self.bytes()))?;
            self.storage = Storage::Owned(Arc::new(copy));
        }
        let Storage::Owned(bytes) = &mut self.storage else {
            return Err(wrong);
        };
        let bytes = Arc::get_mut(bytes).and_then(Bytes64::as_mut_slice);
        bytes.and_then(cast_slice_mut).ok_or(wrong)
    }

    /// A copy of its elements, row-major.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>, TensorError> {
        Ok(self.as_slice::<E>()?.to_vec())
    }

    /// Its elements, row-major. Copies, as [`from_vec`](Self::from_vec) does.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    pub fn into_vec<E: Element>(self) -> Result<Vec<E>, TensorError> {
        self.to_vec()
    }

    /// The same elements in another shape, without a copy.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not hold exactly as many elements.
    pub fn reshape(self, shape: &[usize]) -> Result<Tensor, TensorError> {
        check_shape(self.dtype, shape, self.bytes().len())?;
        Ok(Tensor {
            shape: shape.into(),
            ..self
        })
    }

    fn owned(head: Head, bytes: Arc<Bytes64>) -> Option<Tensor> {
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
        let aligned = bytes.as_ptr().addr().is_multiple_of(super::PART_ALIGN);
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
            shape: Arc::clone(&self.shape),
            part,
        }
    }

    /// Its bytes, to be kept; `None` when they have to be copied and there is no memory.
    pub(super) fn part(&self) -> Option<Arc<Bytes64>> {
        match &self.storage {
            Storage::Owned(bytes) => Some(Arc::clone(bytes)),
            Storage::Borrowed(_) => Bytes64::copy_of(self.bytes()).map(Arc::new),
        }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        let Some(bytes) = self.part() else {
            // As every clone of a Vec does when there is no memory.
            std::alloc::handle_alloc_error(std::alloc::Layout::for_value(self.bytes()));
        };
        Tensor {
            dtype: self.dtype,
            shape: Arc::clone(&self.shape),
            storage: Storage::Owned(bytes),
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
        if !is_ours::<S::Error>() && serializer.is_human_readable() {
            return (self.dtype, &self.shape, self.bytes()).serialize(serializer);
        }
        if survey::note(|| Some((TensorLayout::of(self).ok()?, None))) {
            return 0_u32.serialize(serializer);
        }
        let part = self
            .part()
            .ok_or_else(|| S::Error::custom("no memory for a tensor"))?;
        let index = collector::push(part);
        let index = index.ok_or_else(|| S::Error::custom("a tensor travels in a payload of an edge only"))?;
        self.head(index).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let misfit = || D::Error::custom("a tensor's shape does not fit its bytes");
        if !is_ours::<D::Error>() && deserializer.is_human_readable() {
            let (dtype, shape, bytes) = <(DType, Vec<usize>, Vec<u8>)>::deserialize(deserializer)?;
            let bytes = Bytes64::copy_of(&bytes).ok_or_else(|| D::Error::custom("no memory for a tensor"))?;
            let head = Head {
                dtype,
                shape: shape.into(),
                part: 0,
            };
            return Tensor::owned(head, Arc::new(bytes)).ok_or_else(misfit);
        }
        let head = Head::deserialize(deserializer)?;
        if is_trial() {
            return Tensor::zeros::<u8>(&[0]).map_err(D::Error::custom);
        }
        let bytes =
            collector::take(head.part).ok_or_else(|| D::Error::custom("a tensor without its bytes"))?;
        Tensor::owned(head, bytes).ok_or_else(misfit)
    }
}
