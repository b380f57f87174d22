//! The model's weights as a file: the required content, and the errors of a file without it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};

/// A tensor that the model needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The name of the tensor in the file.
    pub name: &'static str,
    /// The shape of the tensor, `[out, in]` or `[out]`.
    pub shape: &'static [usize],
}

const fn weight(name: &'static str, shape: &'static [usize]) -> Weight {
    Weight { name, shape }
}

/// Weight and bias of each layer, in order.
pub const LAYERS: [(Weight, Weight); 3] = [
    (weight("fc1.weight", &[128, 64]), weight("fc1.bias", &[128])),
    (weight("fc2.weight", &[64, 128]), weight("fc2.bias", &[64])),
    (weight("fc3.weight", &[10, 64]), weight("fc3.bias", &[10])),
];

/// The number of names that an error proposes.
const NEAREST: usize = 3;

/// The reason why a file of weights cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file does not exist, or it may not be read.
    #[error("cannot read the weights {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not safetensors, or is cut off.
    #[error("{} is not a whole safetensors file: {error}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        error: Box<candle_core::Error>,
    },
    /// A tensor is missing.
    #[error("{} has no tensor `{name}`{}", path.display(), proposal(nearest))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The names in the file that are most similar to it; none if the file holds no tensor.
        nearest: Vec<String>,
    },
    /// A tensor has another shape.
    #[error("tensor `{name}` of {} has the shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The shape in this model.
        expected: &'static [usize],
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A tensor has numbers that do not convert to `f32`.
    #[error("tensor `{name}` of {} cannot be read as f32: {error}", path.display())]
    Numbers {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The error of candle.
        error: Box<candle_core::Error>,
    },
}

selvedge::debug_is_report!(WeightsError);

fn proposal(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "; it has none at all".into();
    }
    format!("; the nearest names are `{}`", nearest.join("`, `"))
}

/// Returns the path of the weights that come with the repository.
pub fn shipped_weights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits_mlp.safetensors")
}

/// A file of weights, read and not yet checked.
pub(crate) struct WeightsFile<'p> {
    path: &'p Path,
    tensors: HashMap<String, Tensor>,
}

impl<'p> WeightsFile<'p> {
    pub(crate) fn read(path: &'p Path) -> Result<Self, WeightsError> {
        let bytes = std::fs::read(path).map_err(|error| WeightsError::Unreadable {
            path: path.to_owned(),
            error,
        })?;
        let tensors = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu);
        let tensors = tensors.map_err(|error| WeightsError::Broken {
            path: path.to_owned(),
            error: Box::new(error),
        })?;
        Ok(WeightsFile { path, tensors })
    }

    /// Returns a tensor as `f32`, with the shape that the model needs.
    pub(crate) fn tensor(&self, weight: Weight) -> Result<Tensor, WeightsError> {
        let (path, name) = (self.path.to_owned(), weight.name);
        let Some(tensor) = self.tensors.get(name) else {
            let nearest = self.nearest(name);
            return Err(WeightsError::Missing { path, name, nearest });
        };
        if tensor.dims() != weight.shape {
            return Err(WeightsError::Shape {
                path,
                name,
                expected: weight.shape,
                found: tensor.dims().to_vec(),
            });
        }
        tensor
            .to_dtype(DType::F32)
            .map_err(|error| WeightsError::Numbers {
                path,
                name,
                error: Box::new(error),
            })
    }

    fn nearest(&self, wanted: &str) -> Vec<String> {
        // The similarity favours a common prefix: `fc3.bais` is nearer to `fc3.bias` than `fc1.bias` is.
        let likeness = |name: &str| strsim::jaro_winkler(name, wanted);
        let mut names: Vec<&String> = self.tensors.keys().collect();
        // Equal ones are sorted by name, so that the same file gives the same text.
        names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
        names.into_iter().take(NEAREST).cloned().collect()
    }
}
