//! `tokenizer.json`: text to tokens, and tokens to text one by one.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::error::LoadError;

/// The tokenizer of a folder.
pub struct Text {
    tokenizer: Tokenizer,
}

/// The error of a text or a list of tokens that the tokenizer refuses.
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

    /// Returns the tokens of a text, with those that the tokenizer adds around it (such as one that begins a text).
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoded = self.tokenizer.encode(text, true).map_err(TextError)?;
        Ok(encoded.get_ids().to_vec())
    }

    /// Returns the text of all tokens, without control tokens.
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        self.tokenizer.decode(tokens, true).map_err(TextError)
    }

    /// Returns the number of bytes of the longest token, as the file writes it: at least as many as the text that it
    /// stands for. A token for unknown characters, or one that takes the spaces beside it, may stand for more.
    #[must_use]
    pub fn longest_token(&self) -> usize {
        let tokens = self.tokenizer.get_vocab(true);
        tokens.keys().map(String::len).max().unwrap_or(0)
    }

    /// Returns a stream that turns tokens into text one by one.
    #[must_use]
    pub fn stream(&self) -> Stream<'_> {
        Stream {
            text: self,
            tokens: Vec::new(),
            said: 0,
        }
    }
}

/// A stream that turns tokens into text as they arrive. A token may be a part of a character, and may change how its
/// neighbours are written, so text is returned only when it is complete, and decoding begins at the last token that was
/// complete.
pub struct Stream<'t> {
    text: &'t Text,
    /// The tokens that the next text depends on: those returned last, and those not returned yet.
    tokens: Vec<u32>,
    /// The number of these tokens that were already returned.
    said: usize,
}

impl Stream<'_> {
    /// Returns the text that this token completes; empty while a character is incomplete.
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn push(&mut self, token: u32) -> Result<String, TextError> {
        self.tokens.push(token);
        let before = self
            .text
            .decode(self.tokens.get(..self.said).unwrap_or_default())?;
        let now = self.text.decode(&self.tokens)?;
        // The replacement character stands for the first bytes of a longer character.
        let fresh = match now.strip_prefix(before.as_str()) {
            Some(fresh) if !fresh.is_empty() && !fresh.ends_with('\u{fffd}') => fresh.to_owned(),
            _ => return Ok(String::new()),
        };
        self.tokens.drain(..self.said);
        self.said = self.tokens.len();
        Ok(fresh)
    }

    /// Returns the remaining text when no more tokens follow: a character that was never completed.
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn finish(self) -> Result<String, TextError> {
        let before = self
            .text
            .decode(self.tokens.get(..self.said).unwrap_or_default())?;
        let all = self.text.decode(&self.tokens)?;
        Ok(all.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }
}
