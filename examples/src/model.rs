//! A small perceptron, 64-128-64-10 with ReLU, in candle; weights come from a safetensors file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};

/// Names and shapes of the weights, in order.
pub const WEIGHTS: [(&str, &[usize]); 6] = [
    ("fc1.weight", &[128, 64]),
    ("fc1.bias", &[128]),
    ("fc2.weight", &[64, 128]),
    ("fc2.bias", &[64]),
    ("fc3.weight", &[10, 64]),
    ("fc3.bias", &[10]),
];

/// The weights that come with the repository.
pub fn shipped_weights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits_mlp.safetensors")
}

/// Why a file of weights cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be read, or is not safetensors.
    #[error("{path} is not a readable safetensors file: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// A weight is missing.
    #[error("{path} has no tensor `{name}`; it has: {}", found.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The weight.
        name: &'static str,
        /// What the file has instead.
        found: Vec<String>,
    },
    /// A weight has another shape.
    #[error("tensor `{name}` of {path} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The weight.
        name: &'static str,
        /// The shape of this model.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// Something in candle.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// The model.
#[derive(Clone, Debug)]
pub struct Mlp {
    weights: Vec<Tensor>,
}

impl Mlp {
    /// A model over these weights, in the order of [`WEIGHTS`].
    pub fn new(weights: Vec<Tensor>) -> Mlp {
        Mlp { weights }
    }

    /// Loads the weights of a file.
    ///
    /// # Errors
    /// [`ModelError`] that says what does not fit.
    pub fn load(path: &Path) -> Result<Mlp, ModelError> {
        let unreadable = |reason: String| ModelError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let loaded = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu);
        let tensors: HashMap<String, Tensor> = loaded.map_err(|error| unreadable(error.to_string()))?;
        let mut weights = Vec::with_capacity(WEIGHTS.len());
        for (name, expected) in WEIGHTS {
            let Some(tensor) = tensors.get(name) else {
                let mut found: Vec<String> = tensors.keys().cloned().collect();
                found.sort();
                return Err(ModelError::Missing {
                    path: path.to_owned(),
                    name,
                    found,
                });
            };
            if tensor.dims() != expected {
                let (expected, found) = (expected.to_vec(), tensor.dims().to_vec());
                return Err(ModelError::Shape {
                    path: path.to_owned(),
                    name,
                    expected,
                    found,
                });
            }
            weights.push(tensor.to_dtype(candle_core::DType::F32)?);
        }
        Ok(Mlp { weights })
    }

    /// Logits `[n, 10]` of images `[n, 64]` with values from 0 to 1.
    ///
    /// # Errors
    /// What candle says about a wrong shape.
    pub fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let mut x = images.clone();
        let layers = self.weights.len() / 2;
        for (index, layer) in self.weights.chunks_exact(2).enumerate() {
            let [weight, bias] = layer else { continue };
            x = x.matmul(&weight.t()?)?.broadcast_add(bias)?;
            if index + 1 < layers {
                x = x.relu()?;
            }
        }
        Ok(x)
    }
}

/// The class with the largest logit, per row.
///
/// # Errors
/// What candle says about a wrong shape.
pub fn classes(logits: &Tensor) -> candle_core::Result<Vec<u8>> {
    let indices: Vec<u32> = logits.argmax(1)?.to_vec1()?;
    Ok(indices.into_iter().map(|index| index as u8).collect())
}
