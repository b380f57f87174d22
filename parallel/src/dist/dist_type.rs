//! `DistArray`, which users hold.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Wire;
use selvedge_core::{Ref, RemoteCall, RemoteFunction, Runtime};

use super::element::DistElement;
use super::error::DistError;
use crate::all_values::all_values;
use crate::pool::Pool;
use crate::split::split_range;

/// Numbers of which each worker of a pool has a part, in order: what is made of one part stays with its worker.
///
/// Functions get whole parts, as a `&[T]` with `#[here]`. A result is an array that is distributed in the same way. It is described at once and
/// made meanwhile; an error of a function shows when the elements are gathered or reduced. A part is lost if its worker dies.
///
/// A function that makes a part returns as many elements as it got. Only [`gather`](Self::gather) checks that: what is made or reduced from a part of
/// another length uses the elements that the part has.
///
/// ```
/// use selvedge::prelude::*;
///
/// # fn main() -> Result<()> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// # selvedge::init();
/// let runtime = Runtime::new();
/// let workers = [runtime.worker("one")?, runtime.worker("two")?];
/// let pool = runtime.pool_of(&workers)?;
/// let (a, b) = (pool.distribute(&[1.0, 2.0, 3.0])?, pool.distribute(&[10.0, 20.0, 30.0])?);
/// let add = remote_fn!(|#[here] a: &[f64], #[here] b: &[f64]| -> Vec<f64> {
///     a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>()
/// });
/// let sums = a.zip_map(&b, add)?;
/// assert_eq!(sums.gather()?, [11.0, 22.0, 33.0]);
/// let sum = remote_fn!(|#[here] part: &[f64]| -> f64 { part.iter().sum::<f64>() });
/// assert_eq!(sums.reduce(sum, |one, other| one + other)?, Some(66.0));
/// # Ok(())
/// # }
/// ```
pub struct DistArray<T> {
    runtime: Runtime,
    parts: Vec<DistPart<T>>,
    /// The elements that stay together.
    width: usize,
}

/// A part, and the places of its elements.
struct DistPart<T> {
    value: Ref<Vec<T>>,
    range: Range<usize>,
}

impl<T> Clone for DistArray<T> {
    fn clone(&self) -> Self {
        let parts = self.parts.iter().map(|part| DistPart {
            value: part.value.clone(),
            range: part.range.clone(),
        });
        DistArray {
            runtime: self.runtime.clone(),
            parts: parts.collect(),
            width: self.width,
        }
    }
}

impl<T> fmt::Debug for DistArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<_> = self.parts.iter().map(|part| &part.range).collect();
        f.debug_struct("DistArray")
            .field("parts", &ranges)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Distributes numbers over the workers of the pool: parts of nearly equal length, in order. Waits for nothing.
    ///
    /// # Errors
    /// [`DistError::Pool`].
    pub fn distribute<T: DistElement>(&self, values: &[T]) -> Result<DistArray<T>, DistError> {
        self.distribute_rows(values, 1)
    }

    /// Distributes numbers like [`distribute`](Self::distribute), in rows of `width` elements that stay together.
    ///
    /// # Errors
    /// [`DistError::Pool`], [`DistError::Rows`].
    pub fn distribute_rows<T: DistElement>(
        &self,
        values: &[T],
        width: usize,
    ) -> Result<DistArray<T>, DistError> {
        let (runtime, processes) = (self.runtime()?, self.processes()?);
        let len = values.len();
        let rows = len.checked_div(width).filter(|rows| rows * width == len);
        let rows = rows.ok_or(DistError::Rows { len, width })?;
        let chunks = split_range(0..rows as u64, processes.len());
        let parts = chunks.into_iter().zip(processes).map(|(rows, process)| {
            let range = rows.start as usize * width..rows.end as usize * width;
            let part = values.get(range.clone()).unwrap_or_default().to_vec();
            let value = runtime.keep(T::hold(part).on_process(process));
            DistPart { value, range }
        });
        let parts = parts.collect();
        Ok(DistArray {
            runtime,
            parts,
            width,
        })
    }
}

impl<T> DistArray<T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, |part| part.range.end)
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places of the elements of each part.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().map(|part| part.range.clone())
    }

    /// The rows of each part, and the worker that has them.
    fn layout(&self) -> impl Iterator<Item = (Range<usize>, u32)> {
        self.parts.iter().map(|part| {
            let rows = |place: usize| place.checked_div(self.width).unwrap_or(0);
            let process = part.value.owner().process.number();
            (rows(part.range.start)..rows(part.range.end), process)
        })
    }

    /// Whether the rows of another array lie in the same workers, as many in each.
    pub(crate) fn is_split_like<U>(&self, other: &DistArray<U>) -> Result<(), DistError> {
        match self.layout().eq(other.layout()) {
            true => Ok(()),
            false => Err(DistError::Different),
        }
    }

    /// An array that is split like this one, in rows of `width`, with parts that calls make where those of this one live.
    pub(crate) fn made<V: Wire>(
        &self,
        width: usize,
        describe: impl Fn(Ref<Vec<T>>) -> RemoteCall<Vec<V>>,
    ) -> DistArray<V> {
        let parts = self.parts.iter().zip(self.layout());
        let parts = parts.map(|(part, (rows, _))| DistPart {
            value: self.runtime.keep(describe(part.value.clone())),
            range: rows.start * width..rows.end * width,
        });
        DistArray {
            runtime: self.runtime.clone(),
            parts: parts.collect(),
            width,
        }
    }
}

impl<T: Wire> DistArray<T> {
    /// Makes an array of this one: the function gets each part, as a `&[T]` with `#[here]`, and returns as many elements, which
    /// [`gather`](Self::gather) checks.
    pub fn map<F, V>(&self, function: F) -> DistArray<V>
    where
        F: RemoteFunction<Arguments = (Ref<Vec<T>>,), Output = Vec<V>>,
        V: Wire,
    {
        self.made(self.width, |part| function.describe((part,)))
    }

    /// Makes an array of this one and another one: the function gets the parts of both that have the same places, as `&[T]` and `&[U]` with
    /// `#[here]`, and returns as many elements. The places are those of the descriptions: the function sees it if one of the parts has another length.
    ///
    /// # Errors
    /// [`DistError::Different`].
    pub fn zip_map<U, F, V>(&self, other: &DistArray<U>, function: F) -> Result<DistArray<V>, DistError>
    where
        F: RemoteFunction<Arguments = (Ref<Vec<T>>, Ref<Vec<U>>), Output = Vec<V>>,
        V: Wire,
    {
        self.is_split_like(other)?;
        if self.width != other.width {
            return Err(DistError::Different);
        }
        let others: Vec<_> = other.parts.iter().map(|part| part.value.clone()).collect();
        let mut others = others.into_iter();
        let parts = self.parts.iter().filter_map(|part| {
            let value = self
                .runtime
                .keep(function.describe((part.value.clone(), others.next()?)));
            let range = part.range.clone();
            Some(DistPart { value, range })
        });
        Ok(DistArray {
            runtime: self.runtime.clone(),
            parts: parts.collect(),
            width: self.width,
        })
    }

    /// Calls a function with each part, and combines the values here, in the order of the parts: `combine` should be associative, and need not
    /// be commutative. `None` for an array without elements. The function gets the elements that a part has, also if it should have more or fewer.
    ///
    /// The wait has no limit of its own: it lasts until all parts are made and all calls have ended. The first error ends it, whichever part
    /// it belongs to, and cancels the other calls.
    ///
    /// # Errors
    /// [`DistError::Call`].
    pub fn reduce<F>(
        &self,
        function: F,
        combine: impl FnMut(F::Output, F::Output) -> F::Output,
    ) -> Result<Option<F::Output>, DistError>
    where
        F: RemoteFunction<Arguments = (Ref<Vec<T>>,), Output: Wire>,
    {
        let call = |part: &DistPart<T>| self.runtime.call(function.describe((part.value.clone(),)));
        let values = all_values(self.parts.iter().map(call).collect())?;
        Ok(values.into_iter().reduce(combine))
    }

    /// Fetches all elements, in order.
    ///
    /// The wait has no limit of its own: it lasts until all parts are made and are here. The first error of a part ends it, whichever part it is.
    ///
    /// # Errors
    /// [`DistError::Part`]: a function has failed, or a worker has died; [`DistError::WrongLength`].
    pub fn gather(&self) -> Result<Vec<T>, DistError> {
        let parts = self.parts.iter().enumerate();
        let parts = parts.map(|(place, part)| ((place, part), &part.value));
        let mut values = Vec::with_capacity(self.parts.len());
        self.runtime.each_made(parts, |(place, part)| {
            values.push((place, part.fetch(place)?));
            Ok::<(), DistError>(())
        })?;
        values.sort_by_key(|(place, _)| *place);
        let mut elements = Vec::with_capacity(self.len());
        for (_, value) in values {
            elements.extend_from_slice(&value);
        }
        Ok(elements)
    }
}

impl<T: Wire> DistPart<T> {
    /// Fetches the part at this place of its array, which is made.
    fn fetch(&self, place: usize) -> Result<Arc<Vec<T>>, DistError> {
        let value = self.value.fetch_timeout(Duration::MAX)?;
        let (has, wanted) = (value.len(), self.range.len());
        match has == wanted {
            true => Ok(value),
            false => Err(DistError::WrongLength {
                part: place,
                has,
                wanted,
            }),
        }
    }
}
