//! The text and the tokens of the served model, and the conversion of tokens to text one by one.

use std::sync::Arc;

/// The properties of a model that the service needs besides its graph.
pub trait Vocabulary: Send + Sync + 'static {
    /// Returns the tokens of a prompt.
    ///
    /// # Errors
    /// The message of the tokenizer.
    fn encode(&self, text: &str) -> Result<Vec<u32>, String>;

    /// Returns the text of some tokens, without control tokens. A part of a character is `U+FFFD`.
    fn decode(&self, tokens: &[u32]) -> String;

    /// Whether this token ends a text.
    fn is_end(&self, token: u32) -> bool;

    /// Returns the number of tokens: all token ids are smaller.
    fn size(&self) -> u32;

    /// Returns the most bytes of text that one token stands for.
    fn longest_token(&self) -> usize;
}

/// Converts tokens to text, one by one.
///
/// A token may be a part of a character, and its text may depend on the token before it; so decoding begins at the
/// tokens that were returned last, and text that does not end in a complete character waits for the next token.
pub struct Speech {
    vocabulary: Arc<dyn Vocabulary>,
    tokens: Vec<u32>,
    said: usize,
}

impl Speech {
    /// Creates a conversion, before its first token.
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Speech {
        Speech {
            vocabulary,
            tokens: Vec::new(),
            said: 0,
        }
    }

    /// Returns the text that this token completes; empty while a character is incomplete.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        let fresh = self.fresh();
        if fresh.is_empty() || fresh.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        self.tokens.drain(..self.said);
        self.said = self.tokens.len();
        fresh
    }

    /// Returns the remaining text when no more tokens follow: the parts of a character that was never completed.
    pub fn finish(&mut self) -> String {
        let fresh = self.fresh();
        self.said = self.tokens.len();
        fresh
    }

    fn fresh(&self) -> String {
        let before = self
            .vocabulary
            .decode(self.tokens.get(..self.said).unwrap_or_default());
        let now = self.vocabulary.decode(&self.tokens);
        now.strip_prefix(before.as_str()).unwrap_or_default().to_owned()
    }
}
