//! Vectors for code that does not care where their elements are.

use selvedge_core::Ref;
use selvedge_macros::remote_below_graphs as remote;

use crate::dist::{DistArray, DistError};
use crate::shared::{SharedArray, SharedArrayError};

/// A vector of `f64`, wherever its elements are: a [`Vec`] here, a [`DistArray`] over the workers of a pool, a [`SharedArray`] of
/// several processes, or a type of the user's own.
///
/// Each operation gives the same bits everywhere: a product adds the terms of a row in their order, and the norm is the greatest absolute
/// value, which does not depend on an order.
///
/// Of a [`SharedArray`], `times` and `divided` make another array, which its maker alone can: in other processes they are
/// [`SharedArrayError::NotMaker`].
///
/// ```
/// use selvedge::parallel::{ArrayLike, LocalMatrix};
///
/// fn step<A: ArrayLike>(matrix: &A::Matrix, vector: &A) -> Result<A, A::Error> {
///     let product = vector.times(matrix)?;
///     product.divided(product.norm_max()?)
/// }
///
/// # fn main() -> Result<(), selvedge::BoxError> {
/// let matrix = LocalMatrix { elements: vec![2.0, 0.0, 0.0, 4.0] };
/// assert_eq!(step(&matrix, &vec![1.0, 1.0])?, [0.5, 1.0]);
/// # Ok(())
/// # }
/// ```
pub trait ArrayLike: Sized {
    /// A square matrix whose elements are in the same kind of place.
    type Matrix;
    /// The reason that an operation failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The product of a matrix and this vector.
    ///
    /// # Errors
    /// Those of the kind; also if the matrix is not square, or has another size.
    fn times(&self, matrix: &Self::Matrix) -> Result<Self, Self::Error>;

    /// The quotients of this vector: each element divided by a number.
    ///
    /// # Errors
    /// Those of the kind.
    fn divided(&self, by: f64) -> Result<Self, Self::Error>;

    /// The greatest absolute value of an element; 0 for none.
    ///
    /// # Errors
    /// Those of the kind.
    fn norm_max(&self) -> Result<f64, Self::Error>;

    /// The elements, here.
    ///
    /// # Errors
    /// Those of the kind.
    fn elements(&self) -> Result<Vec<f64>, Self::Error>;
}

/// A square matrix of this process, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalMatrix {
    /// The elements.
    pub elements: Vec<f64>,
}

/// The matrix of a [`Vec`] has another number of rows or columns than the vector has elements.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a matrix of {matrix} elements and a vector of {vector} have no product")]
pub struct NotSquare {
    /// The elements of the matrix.
    pub matrix: usize,
    /// The elements of the vector.
    pub vector: usize,
}

selvedge_channels::debug_is_report!(NotSquare);

/// The products of rows and a vector.
fn products(rows: &[f64], vector: &[f64]) -> Vec<f64> {
    let product = |row: &[f64]| row.iter().zip(vector).fold(0.0, |sum, (a, b)| sum + a * b);
    rows.chunks(vector.len().max(1)).map(product).collect()
}

/// The greatest absolute value. A value that is no number counts as the greatest.
fn greatest(elements: &[f64]) -> f64 {
    elements.iter().map(|element| element.abs()).fold(0.0, greater)
}

fn greater(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

impl ArrayLike for Vec<f64> {
    type Matrix = LocalMatrix;
    type Error = NotSquare;

    fn times(&self, matrix: &LocalMatrix) -> Result<Self, NotSquare> {
        let (rows, vector) = (matrix.elements.len(), self.len());
        match vector.checked_mul(vector) == Some(rows) {
            true => Ok(products(&matrix.elements, self)),
            false => Err(NotSquare { matrix: rows, vector }),
        }
    }

    fn divided(&self, by: f64) -> Result<Self, NotSquare> {
        Ok(self.iter().map(|element| element / by).collect())
    }

    fn norm_max(&self) -> Result<f64, NotSquare> {
        Ok(greatest(self))
    }

    fn elements(&self) -> Result<Vec<f64>, NotSquare> {
        Ok(self.clone())
    }
}

#[remote]
fn products_of_part(#[here] rows: &[f64], vector: &[f64]) -> Vec<f64> {
    products(rows, vector)
}

#[remote]
fn divide_part(#[here] part: &[f64], by: f64) -> Vec<f64> {
    part.iter().map(|element| element / by).collect()
}

#[remote]
fn greatest_of_part(#[here] part: &[f64]) -> f64 {
    greatest(part)
}

impl ArrayLike for DistArray<f64> {
    /// An array that was distributed in rows over the same pool.
    type Matrix = DistArray<f64>;
    type Error = DistError;

    fn times(&self, matrix: &DistArray<f64>) -> Result<Self, DistError> {
        self.is_split_like(matrix)?;
        let len = self.len();
        if len.checked_mul(len) != Some(matrix.len()) {
            return Err(DistError::Different);
        }
        let vector = self.gather()?;
        Ok(matrix.made(1, |rows: Ref<Vec<f64>>| {
            products_of_part::remote(rows, &vector[..])
        }))
    }

    fn divided(&self, by: f64) -> Result<Self, DistError> {
        Ok(self.made(1, |part| divide_part::remote(part, by)))
    }

    fn norm_max(&self) -> Result<f64, DistError> {
        let greatest = self.reduce(greatest_of_part {}, greater)?;
        Ok(greatest.unwrap_or_default())
    }

    fn elements(&self) -> Result<Vec<f64>, DistError> {
        self.gather()
    }
}

#[remote]
fn shared_products(
    matrix: SharedArray<f64>,
    vector: SharedArray<f64>,
    product: SharedArray<f64>,
) -> Result<(), SharedArrayError> {
    let (rows, len) = (product.local_range(), vector.len());
    let rows_of_part = matrix.view()?.read(rows.start * len..rows.end * len)?;
    let products = products(&rows_of_part, &vector.snapshot()?);
    product.view()?.write(rows.start, &products)
}

#[remote]
fn shared_quotients(from: SharedArray<f64>, by: f64, to: SharedArray<f64>) -> Result<(), SharedArrayError> {
    let part = from.local_range();
    let mut quotients = from.view()?.read(part.clone())?;
    quotients.iter_mut().for_each(|element| *element /= by);
    to.view()?.write(part.start, &quotients)
}

#[remote]
fn shared_greatest(array: SharedArray<f64>) -> Result<f64, SharedArrayError> {
    Ok(greatest(&array.view()?.read(array.local_range())?))
}

impl ArrayLike for SharedArray<f64> {
    /// A square array with the same processes.
    type Matrix = SharedArray<f64>;
    type Error = SharedArrayError;

    fn times(&self, matrix: &SharedArray<f64>) -> Result<Self, SharedArrayError> {
        let len = self.len();
        if len.checked_mul(len) != Some(matrix.len()) {
            return Err(SharedArrayError::Different { what: "shape" });
        }
        let product = self.alike()?;
        self.each_by(|| shared_products::remote(matrix, self, &product))?;
        Ok(product)
    }

    fn divided(&self, by: f64) -> Result<Self, SharedArrayError> {
        let quotients = self.alike()?;
        self.each_by(|| shared_quotients::remote(self, by, &quotients))?;
        Ok(quotients)
    }

    fn norm_max(&self) -> Result<f64, SharedArrayError> {
        let greatest = self.reduce(shared_greatest {}, greater)?;
        Ok(greatest.unwrap_or_default())
    }

    fn elements(&self) -> Result<Vec<f64>, SharedArrayError> {
        self.snapshot()
    }
}
