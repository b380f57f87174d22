//! `tokenizer.json`: text to tokens, and tokens to text piece by piece.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::error::LoadError;

/// The tokenizer of a folder.
pub struct Text {
    tokenizer: Tokenizer,
}

/// A text or a list of tokens that the tokenizer refuses.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer: {0}")]
pub struct TextError(tokenizers::Error);

impl Text {
    /// Reads `tokenizer.json` of a folder.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`], [`LoadError::Malformed`].
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|error| LoadError::Unreadable {
            path: path.clone(),
            error,
        })?;
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| LoadError::Malformed {
            path,
            message: error.to_string(),
        })?;
        Ok(Text { tokenizer })
    }

    /// The tokens of a text, with those that the tokenizer puts around it (such as one that begins a text).
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoded = self.tokenizer.encode(text, true).map_err(TextError)?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of all tokens, without those that only steer.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        self.tokenizer.decode(tokens, true).map_err(TextError)
    }

    /// Tokens to text, one after the other.
    #[must_use]
    pub fn stream(&self) -> Stream<'_> {
        Stream {
            text: self,
            tokens: Vec::new(),
            said: 0,
        }
    }
}

/// Turns tokens into text as they come. A token may be a part of a character, and may change how its neighbours are written, so text is
/// given out only when it is whole, and decoding begins at the last token that was.
pub struct Stream<'t> {
    text: &'t Text,
    /// What the next text hangs on: the tokens given out last, and those not given out yet.
    tokens: Vec<u32>,
    /// How many of them are given out.
    said: usize,
}

impl Stream<'_> {
    /// The text that is whole by this token; empty while a character is not.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn push(&mut self, token: u32) -> Result<String, TextError> {
        self.tokens.push(token);
        let before = self
            .text
            .decode(self.tokens.get(..self.said).unwrap_or_default())?;
        let now = self.text.decode(&self.tokens)?;
        // The replacement character stands for the beginning of a longer one.
        let fresh = match now.strip_prefix(before.as_str()) {
            Some(fresh) if !fresh.is_empty() && !fresh.ends_with('\u{fffd}') => fresh.to_owned(),
            _ => return Ok(String::new()),
        };
        self.tokens.drain(..self.said);
        self.said = self.tokens.len();
        Ok(fresh)
    }

    /// What is left when no more tokens come: a character that never became whole.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn finish(self) -> Result<String, TextError> {
        let before = self
            .text
            .decode(self.tokens.get(..self.said).unwrap_or_default())?;
        let all = self.text.decode(&self.tokens)?;
        Ok(all.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }
}
