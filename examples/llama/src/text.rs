//! `tokenizer.json`: text to tokens, and tokens to text one by one.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::error::LoadError;
use crate::pieces::Pieces;

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
            pieces: Pieces::default(),
        }
    }
}

/// A stream that turns tokens into text as they arrive.
pub struct Stream<'t> {
    text: &'t Text,
    pieces: Pieces,
}

impl Stream<'_> {
    /// Returns the text that this token completes, as [`Pieces`] does.
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn push(&mut self, token: u32) -> Result<String, TextError> {
        self.pieces.push(token, |tokens| self.text.decode(tokens))
    }

    /// Returns the remaining text when no more tokens follow: a character that was never completed.
    ///
    /// # Errors
    /// The error of the tokenizer.
    pub fn finish(mut self) -> Result<String, TextError> {
        self.pieces.finish(|tokens| self.text.decode(tokens))
    }
}
