//! The perceptron of the digits as layers of candle, which follows the gradients of its parameters.

use candle_core::{DType, Error, Module, Result, Tensor};
use candle_nn::Linear;
use selvedge_examples::model::{Dense, Mlp};

/// Returns the logits `[n, 10]` of images `[n, 64]`, with ReLU after each layer but the last.
///
/// # Errors
/// The errors of candle.
pub fn forward(layers: &[Linear], images: &Tensor) -> Result<Tensor> {
    let Some((last, hidden)) = layers.split_last() else {
        return Ok(images.clone());
    };
    let mut x = images.clone();
    for layer in hidden {
        x = layer.forward(&x)?.relu()?;
    }
    last.forward(&x)
}

/// Returns the model of the examples with the parameters of these layers.
///
/// # Errors
/// The errors of candle, and layers without a bias.
pub fn trained(layers: &[Linear]) -> Result<Mlp> {
    let numbers = |tensor: &Tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    let layer = |layer: &Linear| {
        let bias = layer.bias().ok_or_else(|| Error::msg("a layer without a bias"))?;
        Ok(Dense::new(&numbers(layer.weight())?, numbers(bias)?))
    };
    layers.iter().map(layer).collect::<Result<_>>().map(Mlp::new)
}
