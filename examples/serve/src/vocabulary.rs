//! The text and the tokens of the served model, and the conversion of tokens to text one by one.

use std::convert::Infallible;
use std::sync::Arc;

use selvedge_llama::pieces::Pieces;

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

/// Converts tokens to text, one by one, as [`Pieces`] does.
pub struct Speech {
    vocabulary: Arc<dyn Vocabulary>,
    pieces: Pieces,
}

impl Speech {
    /// Creates a conversion, before its first token.
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Speech {
        Speech {
            vocabulary,
            pieces: Pieces::default(),
        }
    }

    /// Returns the text that this token completes; empty while a character is incomplete.
    pub fn push(&mut self, token: u32) -> String {
        let Ok::<_, Infallible>(text) = self
            .pieces
            .push(token, |tokens| Ok(self.vocabulary.decode(tokens)));
        text
    }

    /// Returns the remaining text when no more tokens follow: the parts of a character that was never completed.
    pub fn finish(&mut self) -> String {
        let Ok::<_, Infallible>(text) = self.pieces.finish(|tokens| Ok(self.vocabulary.decode(tokens)));
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A vocabulary whose tokens are bytes; it counts the tokens that it decodes.
    #[derive(Default)]
    struct Bytes(AtomicUsize);

    impl Vocabulary for Bytes {
        fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
            Ok(text.bytes().map(u32::from).collect())
        }

        fn decode(&self, tokens: &[u32]) -> String {
            self.0.fetch_add(tokens.len(), Ordering::Relaxed);
            let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }

        fn is_end(&self, _: u32) -> bool {
            false
        }

        fn size(&self) -> u32 {
            256
        }

        fn longest_token(&self) -> usize {
            1
        }
    }

    fn said(bytes: &[u8]) -> (Vec<String>, usize) {
        let vocabulary = Arc::new(Bytes::default());
        let mut speech = Speech::new(Arc::clone(&vocabulary) as Arc<dyn Vocabulary>);
        let mut pieces: Vec<String> = bytes.iter().map(|byte| speech.push(u32::from(*byte))).collect();
        pieces.push(speech.finish());
        (pieces, vocabulary.0.load(Ordering::Relaxed))
    }

    #[test]
    fn text_comes_in_whole_characters() {
        let (pieces, _) = said("aé€😀".as_bytes());
        assert_eq!(pieces, ["a", "", "é", "", "", "€", "", "", "", "😀", ""]);
        let (pieces, _) = said(b"a\xf0\x9f");
        assert_eq!(pieces, ["a", "", "", "\u{fffd}"], "the rest comes in the end");
    }

    #[test]
    fn bytes_that_are_no_text_are_held_for_eight_tokens_only() {
        let (pieces, decoded) = said(&[0xff; 4000]);
        assert_eq!(pieces[..7].concat(), "");
        assert_eq!(pieces[7], "\u{fffd}".repeat(8));
        assert_eq!(pieces.concat(), "\u{fffd}".repeat(4000));
        assert!(decoded < 4001 * 32, "{decoded} tokens were decoded for 4000");
        let text = [&[0xff; 7][..], "😀a".as_bytes()].concat();
        let (pieces, _) = said(&text);
        assert!(pieces.concat().ends_with("😀a"), "{pieces:?}");
    }
}
