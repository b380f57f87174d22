//! A Hugging Face style folder: `config.json`, `model.safetensors` or an index with several files, `tokenizer.json`.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::LoadError;
use crate::share::Share;
use crate::tensors::{is_derived, needed};
use crate::weights::Weights;

/// The folder that comes with the repository.
#[must_use]
pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model")
}

/// A folder whose files were opened and whose weights were not read yet.
#[derive(Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// The shape of the model.
    pub config: Config,
    /// Its weights.
    pub weights: Weights,
}

impl Folder {
    /// Reads `config.json` and what the files of weights say of themselves.
    ///
    /// # Errors
    /// As [`Config::read`] and [`Weights::open`].
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

    /// Checks that the model can be cut like that, that all its tensors are there, and that there are no others. Reads no weights.
    ///
    /// # Errors
    /// As [`Share::check`] and [`Weights::check`]; [`LoadError::Unread`] where the files have tensors that no share reads.
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
