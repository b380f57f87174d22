//! The difference between tensors.

use candle_core::Tensor;

/// Returns the greatest absolute difference.
pub(crate) fn apart(left: &Tensor, right: &Tensor) -> f32 {
    let most = (left - right).and_then(|all| all.abs()?.max_all()?.to_scalar());
    most.unwrap()
}
