//! A dense array of numbers: row-major, contiguous, on a 64-byte boundary.
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
use super::layout::{TensorError, TensorLayout, byte_count, check_shape, dense_strides};
use super::{collector, survey};

enum Storage {
    Owned(Arc<Bytes64>),
    /// Bytes in a slot. Such a tensor lives only inside the value that holds the slot and leaves it only as `&Tensor`.
    /// A clone is a copy on the heap (`VAL-2`).
    Borrowed(*const [u8]),
}

// SAFETY: the bytes of `Borrowed` are not written while the value that owns this tensor holds its slot.
unsafe impl Send for Storage {}
// SAFETY: see `Send`; shared bytes are only read.
unsafe impl Sync for Storage {}

/// A dense array of numbers. Clones share the bytes.
///
/// A `&Tensor` argument of a method in another process is a view of the slot. A tensor inside another value is copied
/// out of the slot once. Its bytes are on a 64-byte boundary.
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

/// The encoded head of a tensor: its type and shape, and the index of its part.
#[derive(Serialize, Deserialize)]
pub(super) struct TensorHead {
    dtype: DType,
    shape: Arc<[usize]>,
    part: u32,
}

fn no_memory(bytes: &[u8]) -> TensorError {
    TensorError::Memory {
        len_bytes: Some(bytes.len()),
    }
}

impl TensorHead {
    /// The head of a tensor that is a value by itself.
    pub(super) fn of(dtype: DType, shape: &[usize]) -> Self {
        TensorHead {
            dtype,
            shape: shape.into(),
            part: 0,
        }
    }

    fn fits(&self, len_bytes: usize) -> bool {
        byte_count(self.dtype, &self.shape) == Some(len_bytes)
    }
}

impl TensorLayout {
    /// The layout of a tensor in host memory.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn of(tensor: &Tensor) -> Result<Self, TensorError> {
        TensorLayout::new(tensor.dtype(), tensor.shape())
    }
}

impl Tensor {
    /// Makes a tensor from a copy of `values`. The shape `[]` is a scalar.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not have exactly `values.len()` elements, [`TensorError::Memory`].
    pub fn from_slice<E: Element>(values: &[E], shape: &[usize]) -> Result<Tensor, TensorError> {
        Tensor::from_raw(E::DTYPE, shape, bytes_of(values))
    }

    /// Makes a tensor from a copy of `values`, since a `Vec` is not on a 64-byte boundary. To fill a large tensor
    /// without a copy, use [`zeros`](Self::zeros) and [`as_mut_slice`](Self::as_mut_slice).
    ///
    /// # Errors
    /// The errors of [`from_slice`](Self::from_slice).
    pub fn from_vec<E: Element>(values: Vec<E>, shape: &[usize]) -> Result<Tensor, TensorError> {
        Tensor::from_slice(&values, shape)
    }

    /// Makes a tensor of zeros.
    ///
    /// # Errors
    /// [`TensorError::Memory`] when the shape overflows or there is not enough memory.
    pub fn zeros<E: Element>(shape: &[usize]) -> Result<Tensor, TensorError> {
        let len_bytes = byte_count(E::DTYPE, shape);
        let bytes = len_bytes.and_then(Bytes64::zeroed);
        let bytes = bytes.ok_or(TensorError::Memory { len_bytes })?;
        Ok(Tensor::over(E::DTYPE, shape, bytes))
    }

    /// Makes a tensor of any element type from a copy of raw row-major bytes.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when the number of elements is not that of `shape`, [`TensorError::Memory`].
    pub fn from_raw(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        check_shape(dtype, shape, bytes.len())?;
        let copy = Bytes64::copy_of(bytes).ok_or_else(|| no_memory(bytes))?;
        Ok(Tensor::over(dtype, shape, copy))
    }

    /// Makes a tensor of any element type. `fill` writes its row-major bytes, which are zero at first.
    ///
    /// # Errors
    /// [`TensorError::Memory`] when the shape overflows or there is not enough memory.
    pub fn filled(
        dtype: DType,
        shape: impl Into<Arc<[usize]>>,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Tensor, TensorError> {
        let shape = shape.into();
        let len_bytes = byte_count(dtype, &shape);
        let mut bytes = len_bytes.and_then(Bytes64::zeroed);
        if let Some(bytes) = bytes.as_mut().and_then(Bytes64::as_mut_slice) {
            fill(bytes);
        }
        let bytes = bytes.ok_or(TensorError::Memory { len_bytes })?;
        Ok(Tensor::over(dtype, shape, bytes))
    }

    /// Makes a tensor over row-major bytes of another owner, without a copy. `keeper` keeps the bytes alive and is
    /// dropped with the last clone. Returns `None` if the bytes are not on a 64-byte boundary.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when a tensor of `shape` does not have exactly as many bytes.
    ///
    /// # Safety
    /// The bytes must be valid and unwritten as long as `keeper` exists, even if it is moved.
    pub unsafe fn from_kept(
        dtype: DType,
        shape: impl Into<Arc<[usize]>>,
        bytes: *const [u8],
        keeper: Box<dyn Any + Send + Sync>,
    ) -> Result<Option<Tensor>, TensorError> {
        let shape = shape.into();
        check_shape(dtype, &shape, bytes.len())?;
        // SAFETY: the caller promises it.
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

    /// Makes a tensor of truth values, one byte each.
    ///
    /// # Errors
    /// The errors of [`from_slice`](Self::from_slice).
    pub fn from_bools(values: &[bool], shape: &[usize]) -> Result<Tensor, TensorError> {
        let bytes: Vec<u8> = values.iter().map(|value| u8::from(*value)).collect();
        Tensor::from_raw(DType::Bool, shape, &bytes)
    }

    /// The truth values, row-major. Every byte except 0 is true: a byte of another process may have any value, so the
    /// bytes are converted and not cast.
    ///
    /// # Errors
    /// [`TensorError::DType`] when the elements are not truth values.
    pub fn to_bools(&self) -> Result<Vec<bool>, TensorError> {
        if self.dtype != DType::Bool {
            return Err(TensorError::DType {
                expected: DType::Bool,
                found: self.dtype,
            });
        }
        Ok(self.bytes().iter().map(|byte| *byte != 0).collect())
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The strides of a row-major, contiguous array: for each dimension, the number of elements from one index to the
    /// next.
    pub fn strides(&self) -> Vec<usize> {
        dense_strides(&self.shape)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes().len() / self.dtype.size_bytes()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The bytes of the elements, row-major.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(bytes) => bytes.as_slice(),
            // SAFETY: valid while the value that owns this tensor holds its slot, which is longer than `&self` lives.
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

    /// The elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::DType`] when the elements are of another type.
    #[inline]
    pub fn as_slice<E: Element>(&self) -> Result<&[E], TensorError> {
        self.check::<E>()?;
        cast_slice::<E>(self.bytes()).ok_or_else(|| self.wrong::<E>())
    }

    /// The elements, row-major, for writing. Bytes that are shared with a clone, lie in a slot or belong to another
    /// owner are copied first.
    ///
    /// # Errors
    /// [`TensorError::DType`] when the elements are of another type, [`TensorError::Memory`].
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

    /// A copy of the elements, row-major.
    ///
    /// # Errors
    /// The errors of [`as_slice`](Self::as_slice).
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>, TensorError> {
        Ok(self.as_slice::<E>()?.to_vec())
    }

    /// A copy of the elements, row-major. The bytes cannot become the `Vec`, for the same reason as in
    /// [`from_vec`](Self::from_vec).
    ///
    /// # Errors
    /// The errors of [`as_slice`](Self::as_slice).
    pub fn into_vec<E: Element>(self) -> Result<Vec<E>, TensorError> {
        self.to_vec()
    }

    /// Changes the shape, without copying the elements.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `shape` does not have exactly as many elements.
    pub fn reshape(self, shape: &[usize]) -> Result<Tensor, TensorError> {
        check_shape(self.dtype, shape, self.bytes().len())?;
        Ok(Tensor {
            shape: shape.into(),
            ..self
        })
    }

    pub(super) fn owned(head: TensorHead, bytes: Arc<Bytes64>) -> Option<Tensor> {
        let fits = head.fits(bytes.as_slice().len());
        fits.then(|| Tensor {
            dtype: head.dtype,
            shape: head.shape,
            storage: Storage::Owned(bytes),
        })
    }

    /// Makes a tensor over bytes of another owner. Returns `None` if they are not aligned or do not fit the head.
    ///
    /// # Safety
    /// `bytes` must stay valid and unwritten as long as the tensor exists, so the tensor must not be moved out of the
    /// value that holds the slot.
    pub(super) unsafe fn borrowed(head: TensorHead, bytes: &[u8]) -> Option<Tensor> {
        let aligned = bytes.as_ptr().addr().is_multiple_of(super::PART_ALIGN);
        let fits = head.fits(bytes.len()) && head.part == 0 && aligned;
        fits.then(|| Tensor {
            dtype: head.dtype,
            shape: head.shape,
            storage: Storage::Borrowed(bytes),
        })
    }

    pub(super) fn head(&self, part: u32) -> TensorHead {
        TensorHead {
            dtype: self.dtype,
            shape: Arc::clone(&self.shape),
            part,
        }
    }

    /// The bytes as a shared part. Borrowed bytes are copied; `None` if there is no memory for the copy.
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
            // Like the clone of a `Vec` when there is no memory.
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
    /// Compares type, shape and bytes. Unlike with `f32`, a NaN equals itself and 0.0 differs from -0.0.
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
    /// Serialises the tensor: out of band inside the payload of an edge, inline for human-readable formats.
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
            let head = TensorHead {
                dtype,
                shape: shape.into(),
                part: 0,
            };
            return Tensor::owned(head, Arc::new(bytes)).ok_or_else(misfit);
        }
        let head = TensorHead::deserialize(deserializer)?;
        if is_trial() {
            return Tensor::zeros::<u8>(&[0]).map_err(D::Error::custom);
        }
        let bytes =
            collector::take(head.part).ok_or_else(|| D::Error::custom("a tensor without its bytes"))?;
        Tensor::owned(head, bytes).ok_or_else(misfit)
    }
}
