//! Conversions between tensors and arrays of `ndarray`.

use ndarray::{ArrayBase, ArrayViewD, ArrayViewMutD, Data, Dimension, IxDyn};

use super::super::element::Element;
use super::super::{Tensor, TensorError};

impl Tensor {
    /// A view of the tensor as an array.
    ///
    /// # Errors
    /// [`TensorError::DType`] when its elements are of another type, [`TensorError::Shape`] when `ndarray` does not
    /// support its shape.
    pub fn as_ndarray<E: Element>(&self) -> Result<ArrayViewD<'_, E>, TensorError> {
        let misfit = |_| self.misfit();
        ArrayViewD::from_shape(IxDyn(self.shape()), self.as_slice::<E>()?).map_err(misfit)
    }

    /// A mutable view of the tensor as an array. If the bytes are shared with a clone, they are copied first.
    ///
    /// # Errors
    /// The errors of [`as_mut_slice`](Self::as_mut_slice), and [`TensorError::Shape`] when `ndarray` does not support
    /// its shape.
    pub fn as_ndarray_mut<E: Element>(&mut self) -> Result<ArrayViewMutD<'_, E>, TensorError> {
        let (misfit, shape) = (self.misfit(), IxDyn(self.shape()));
        ArrayViewMutD::from_shape(shape, self.as_mut_slice::<E>()?).map_err(|_| misfit)
    }

    /// Makes a tensor from a row-major copy of an array.
    ///
    /// # Errors
    /// [`TensorError::Memory`].
    pub fn from_ndarray<E, S, D>(array: &ArrayBase<S, D>) -> Result<Tensor, TensorError>
    where
        E: Element,
        S: Data<Elem = E>,
        D: Dimension,
    {
        match array.as_slice() {
            Some(slice) => Tensor::from_slice(slice, array.shape()),
            None => {
                let elements: Vec<E> = array.iter().copied().collect();
                Tensor::from_slice(&elements, array.shape())
            }
        }
    }

    /// The error for a shape that `ndarray` does not support: the product of its nonzero dimensions overflows.
    fn misfit(&self) -> TensorError {
        TensorError::Shape {
            shape: self.shape().to_vec(),
            expected: None,
            found: self.len(),
        }
    }
}
