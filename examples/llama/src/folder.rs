//! A Hugging Face style folder: `config.json`, `model.safetensors` or an index with several files, `tokenizer.json`.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::LoadError;
use crate::share::Share;
use crate::tensors::{is_derived, needed};
use crate::weights::Weights;

/// Returns the folder that comes with the repository.
#[must_use]
pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model")
}

/// A folder whose files are open and whose weights are not yet read.
#[derive(Debug)]
pub struct Folder {
    /// The path of the folder.
    pub path: PathBuf,
    /// The shape of the model.
    pub config: Config,
    /// The weights.
    pub weights: Weights,
}

impl Folder {
    /// Reads `config.json` and the headers of the weights' files.
    ///
    /// # Errors
    /// The errors of [`Config::read`] and [`Weights::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref().to_owned();
        let config = Config::read(&path)?;
        let weights = Weights::open(&path)?;
        Ok(Folder {
            path,
            config,
            weights,
        })
    }

    /// Checks that the model can be cut in this way, that all its tensors are in the files, and that the files have no
    /// others. Reads no weights.
    ///
    /// # Errors
    /// The errors of [`Share::check`] and [`Weights::check`]; [`LoadError::Unread`] if the files have tensors that no
    /// share reads.
    pub fn check(&self, share: &Share) -> Result<(), LoadError> {
        share.check(&self.config, &self.path)?;
        let needed = needed(&self.config, &Share::WHOLE);
        needed
            .iter()
            .try_for_each(|one| self.weights.check(&one.name, &one.shape))?;
        self.weights
            .check_unread(|name| is_derived(&self.config, name) || needed.iter().any(|one| one.name == name))
    }
}
