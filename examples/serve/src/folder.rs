//! A folder with a model in the layout of Hugging Face, as the model of the service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge::{BoxError, Runtime};
use selvedge_llama::config::Config;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::text::Text;

use crate::service::TextBuild;
use crate::supervise::{Actors, Built};
use crate::vocabulary::Vocabulary;

/// The tokenizer of a folder, with the tokens that end a text.
struct Words {
    text: Text,
    ends: Vec<u32>,
    size: u32,
    longest: usize,
}

impl Vocabulary for Words {
    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.text.encode(text).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        // Tokens that the tokenizer does not know never come from a prompt; if a model generates them, they have no
        // text.
        self.text.decode(tokens).unwrap_or_default()
    }

    fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn longest_token(&self) -> usize {
        self.longest
    }
}

/// Returns the vocabulary of a folder, and the number of positions of its model.
///
/// # Errors
/// A file cannot be read.
pub fn vocabulary(folder: &Path) -> Result<(Arc<dyn Vocabulary>, u32), BoxError> {
    let (text, config) = (Text::open(folder)?, Config::read(folder)?);
    let size = u32::try_from(config.vocabulary)?;
    let positions = u32::try_from(config.positions)?;
    let words = Words {
        longest: text.longest_token(),
        text,
        ends: config.end,
        size,
    };
    Ok((Arc::new(words), positions))
}

/// Returns the function that builds the folder's model.
pub fn build(runtime: &Runtime, folder: PathBuf, layout: Layout) -> TextBuild {
    let runtime = runtime.clone();
    Arc::new(move || {
        let (graph, actors) = Deployment::load(&runtime, &folder, &layout)?.into_parts();
        let actors = Actors(actors);
        Ok(Built { graph, actors })
    })
}
