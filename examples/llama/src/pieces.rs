//! Tokens to text one by one, whatever decodes them.

/// The most tokens whose text is held back. A character has at most four bytes, so the text of so many tokens that does
/// not end in a character is not text, and more tokens do not change that.
const HELD_MAX: usize = 8;

/// The tokens of a text that is returned piece by piece.
///
/// A token may be a part of a character, and its text may depend on the token before it; so decoding begins at the
/// tokens that were returned last, and text that does not end in a complete character waits for the next token. Text that
/// still does not after eight tokens is returned with replacement characters: it is of no use to wait, and each token
/// would decode all tokens that wait.
#[derive(Debug, Default)]
pub struct Pieces {
    /// The tokens that the next text depends on: those returned last, and those not returned yet.
    tokens: Vec<u32>,
    /// The number of these tokens that were already returned.
    said: usize,
}

impl Pieces {
    /// Returns the text that this token completes; empty while a character is incomplete.
    ///
    /// # Errors
    /// The errors of `decode`, which returns the text of some tokens.
    pub fn push<E>(&mut self, token: u32, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        self.tokens.push(token);
        let fresh = self.fresh(decode)?;
        let is_incomplete = fresh.is_empty() || fresh.ends_with(char::REPLACEMENT_CHARACTER);
        if is_incomplete && self.tokens.len() - self.said < HELD_MAX {
            return Ok(String::new());
        }
        self.tokens.drain(..self.said);
        self.said = self.tokens.len();
        Ok(fresh)
    }

    /// Returns the remaining text when no more tokens follow: the parts of a character that was never completed.
    ///
    /// # Errors
    /// The errors of `decode`.
    pub fn finish<E>(&mut self, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        let fresh = self.fresh(decode)?;
        self.said = self.tokens.len();
        Ok(fresh)
    }

    fn fresh<E>(&self, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        let before = decode(self.tokens.get(..self.said).unwrap_or_default())?;
        let now = decode(&self.tokens)?;
        // A token may complete a character of which a replacement was returned: only that replacement is not repeated.
        let same = before
            .chars()
            .zip(now.chars())
            .take_while(|(one, other)| one == other);
        Ok(now.chars().skip(same.count()).collect())
    }
}
