//! A folder with a model, as Hugging Face lays it out, as what is served.

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
}

impl Vocabulary for Words {
    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.text.encode(text).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        // Tokens that the tokenizer does not know come from no prompt; a model that makes them up says nothing by them.
        self.text.decode(tokens).unwrap_or_default()
    }

    fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    fn size(&self) -> u32 {
        self.size
    }
}

/// The vocabulary of a folder, and how many positions its model has.
///
/// # Errors
/// What cannot be read.
pub fn vocabulary(folder: &Path) -> Result<(Arc<dyn Vocabulary>, u32), BoxError> {
    let (text, config) = (Text::open(folder)?, Config::read(folder)?);
    let size = u32::try_from(config.vocabulary)?;
    let positions = u32::try_from(config.positions)?;
    let ends = config.end;
    Ok((Arc::new(Words { text, ends, size }), positions))
}

/// How the folder's model is built.
pub fn build(runtime: &Runtime, folder: PathBuf, layout: Layout) -> TextBuild {
    let runtime = runtime.clone();
    Arc::new(move || {
        let (graph, actors) = Deployment::load(&runtime, &folder, &layout)?.into_parts();
        let actors = Actors(actors);
        Ok(Built { graph, actors })
    })
}
