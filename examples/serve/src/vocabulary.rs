//! Text and tokens of the model that is served, and text as its tokens come.

use std::sync::Arc;

/// What the service must know of a model beside its graph.
pub trait Vocabulary: Send + Sync + 'static {
    /// The tokens of a prompt.
    ///
    /// # Errors
    /// What the tokenizer says.
    fn encode(&self, text: &str) -> Result<Vec<u32>, String>;

    /// The text of some tokens, without those that only steer. A part of a character is `U+FFFD`.
    fn decode(&self, tokens: &[u32]) -> String;

    /// Whether this token ends a text.
    fn is_end(&self, token: u32) -> bool;

    /// How many tokens there are: all are smaller.
    fn size(&self) -> u32;
}

/// Tokens to text, one after the other.
///
/// A token may be a part of a character, and how it is written may hang on the one before it; so decoding begins at the tokens
/// that were said last, and what does not end in a whole character waits for the next.
pub struct Speech {
    vocabulary: Arc<dyn Vocabulary>,
    tokens: Vec<u32>,
    said: usize,
}

impl Speech {
    /// Before the first token.
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Speech {
        Speech {
            vocabulary,
            tokens: Vec::new(),
            said: 0,
        }
    }

    /// The text that this token completes; empty while a character is not whole.
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

    /// What is left when no more tokens come: the parts of a character that never became whole.
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
