//! The survey of the tensors in a value, at any depth: their layouts and devices, without encoding them.
//!
//! The value is serialised to a sink that discards the bytes, while its tensors add themselves to a thread-local table.
//! The cost is that of visiting the value's other fields.

use std::any::TypeId;

use super::Wire;
use super::codec::ByteSink;
use super::collector::Collecting;
use super::element::vec_dtype_of;
use super::encode::write_head;
use super::layout::TensorLayout;
use super::scope::{Scope, ScopePlace};
use crate::error::EncodeError;

/// The layout of a tensor, and the number of its device if it is on one.
pub(crate) type Seen = (TensorLayout, Option<u32>);

thread_local! {
    static TABLE: ScopePlace<Vec<Seen>> = const { ScopePlace::new() };
}

/// Adds a tensor to the table of the running survey. Returns `false` if none is running; the tensor is then serialised.
pub(crate) fn note(seen: impl FnOnce() -> Option<Seen>) -> bool {
    ScopePlace::look(&TABLE, |table| {
        table.as_mut().map(|table| table.extend(seen())).is_some()
    })
}

/// A sink that discards all bytes.
struct Nowhere;

impl ByteSink for Nowhere {
    fn put(&mut self, _: &[u8]) -> bool {
        true
    }
}

/// The tensors of a value, in the order in which it serialises them.
///
/// # Errors
/// [`EncodeError::Serialize`] when the value's `Serialize` fails, [`EncodeError::TooDeep`].
pub(crate) fn survey<T: Wire>(value: &T) -> Result<Vec<Seen>, EncodeError> {
    if vec_dtype_of::<T>().is_some() || TypeId::of::<T>() == TypeId::of::<String>() {
        return Ok(Vec::new());
    }
    let scope = Scope::open(&TABLE, Vec::new());
    // In a scope of the collector, so that the tensors of a shared value are seen once.
    let collecting = Collecting::begin();
    let written = write_head::<_, _, false>(value, None, Nowhere);
    collecting.end();
    written?;
    Ok(scope.close().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{DType, Tensor, encode};

    #[test]
    fn tensors_are_seen_wherever_they_are_and_nothing_stays_behind() {
        let tensor = |shape: &[usize]| Tensor::zeros::<f32>(shape).unwrap();
        let value = (7_u32, vec![tensor(&[2]), tensor(&[3, 1])], Some(tensor(&[])));
        let shapes = |seen: Vec<Seen>| -> Vec<Vec<usize>> {
            seen.iter().map(|(layout, _)| layout.shape().to_vec()).collect()
        };
        let seen = survey(&value).unwrap();
        assert!(
            seen.iter()
                .all(|(layout, device)| layout.dtype() == DType::F32 && device.is_none())
        );
        assert_eq!(shapes(seen), [vec![2], vec![3, 1], vec![]]);
        assert_eq!(shapes(survey(&tensor(&[4])).unwrap()), [[4]]);
        assert!(survey(&vec![1_u8; 9]).unwrap().is_empty() && survey(&"x".to_owned()).unwrap().is_empty());
        // After the survey, values are encoded as before.
        assert!(encode(&value).unwrap().len_bytes() > 4 * 6);
    }
}
