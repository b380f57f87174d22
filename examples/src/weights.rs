//! The model's weights as a file: the required content, and the errors of a file without it.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensorError, SafeTensors};

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
        error: SafeTensorError,
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
    /// A tensor has numbers of another type.
    #[error("tensor `{name}` of {} has numbers of the type {found}, expected F32 or F64", path.display())]
    Numbers {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The type of its numbers.
        found: Dtype,
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

/// A file of weights whose tensors are not checked yet.
pub(crate) struct WeightsFile<'f> {
    path: &'f Path,
    tensors: SafeTensors<'f>,
}

impl<'f> WeightsFile<'f> {
    pub(crate) fn read(path: &Path) -> Result<Vec<u8>, WeightsError> {
        std::fs::read(path).map_err(|error| WeightsError::Unreadable {
            path: path.to_owned(),
            error,
        })
    }

    pub(crate) fn parse(path: &'f Path, bytes: &'f [u8]) -> Result<Self, WeightsError> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| WeightsError::Broken {
            path: path.to_owned(),
            error,
        })?;
        Ok(WeightsFile { path, tensors })
    }

    /// Returns the numbers of a tensor as `f32`, if the tensor has the shape that the model needs.
    pub(crate) fn tensor(&self, weight: Weight) -> Result<Vec<f32>, WeightsError> {
        let (path, name) = (self.path.to_owned(), weight.name);
        let Ok(tensor) = self.tensors.tensor(name) else {
            let nearest = self.nearest(name);
            return Err(WeightsError::Missing { path, name, nearest });
        };
        if tensor.shape() != weight.shape {
            return Err(WeightsError::Shape {
                path,
                name,
                expected: weight.shape,
                found: tensor.shape().to_vec(),
            });
        }
        let (short, _) = tensor.data().as_chunks();
        let (long, _) = tensor.data().as_chunks();
        match tensor.dtype() {
            Dtype::F32 => Ok(short.iter().map(|it| f32::from_le_bytes(*it)).collect()),
            Dtype::F64 => Ok(long.iter().map(|it| f64::from_le_bytes(*it) as f32).collect()),
            found => Err(WeightsError::Numbers { path, name, found }),
        }
    }

    fn nearest(&self, wanted: &str) -> Vec<String> {
        // The similarity favours a common prefix: `fc3.bais` is nearer to `fc3.bias` than `fc1.bias` is.
        let likeness = |name: &str| strsim::jaro_winkler(name, wanted);
        let mut names = self.tensors.names();
        // Equal ones are sorted by name, so that the same file gives the same text.
        names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
        names.into_iter().take(NEAREST).map(str::to_owned).collect()
    }
}
