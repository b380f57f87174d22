//! The token of each piece of text: a word, a digit, a shade, or the end of a line.
//!
//! There is no token for the beginning, so that a text has the same tokens whether or not a program asks for special
//! tokens. Blanks between words are dropped, and so is punctuation after a word: a full stop would look like paper.

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use crate::alphabet::SHADES;

/// The token of anything outside the vocabulary.
pub const UNKNOWN: &str = "<|unk|>";
/// The token that ends an answer.
pub const END: &str = "<|end|>";
/// The token that ends a line of a picture.
pub const NEWLINE: &str = "\n";

const WORDS: [&str; 10] = [
    "draw", "read", "a", "the", "digit", "number", "this", "is", "what", "which",
];
/// The digits, spelt out.
pub const NUMBERS: [&str; 10] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];

/// Returns all tokens, in the order of their numbers.
pub fn vocabulary() -> Vec<String> {
    let mut tokens: Vec<String> = [UNKNOWN, END, NEWLINE].map(String::from).into();
    tokens.extend(SHADES.map(String::from));
    tokens.extend((0..10).map(|digit| digit.to_string()));
    tokens.extend(WORDS.map(String::from));
    tokens.extend(NUMBERS.map(String::from));
    tokens
}

/// Returns the number of a token.
pub fn id(token: &str) -> Option<u32> {
    let at = vocabulary().iter().position(|it| it == token)?;
    u32::try_from(at).ok()
}

/// Returns the tokenizer as a `tokenizer.json`.
pub fn json() -> Value {
    let special = |(id, content): (usize, &str)| {
        json!({
            "id": id, "content": content, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let vocabulary = vocabulary();
    let numbered = vocabulary
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), json!(id)));
    let numbered: Map<String, Value> = numbered.collect();
    let specials: Vec<Value> = [UNKNOWN, END].into_iter().enumerate().map(special).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": specials,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                { "type": "Lowercase" },
                // Punctuation after a word, up to the next blank.
                { "type": "Replace", "pattern": { "Regex": "(?<=[a-z0-9])[^a-z0-9\\s]+(?=\\s|$)" }, "content": "" },
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": "[^\\S\\n]+" }, "behavior": "Removed", "invert": false },
                { "type": "Split", "pattern": { "Regex": "[a-z]+|[^a-z]" }, "behavior": "Isolated", "invert": false },
            ],
        },
        "post_processor": null,
        // Tokens are joined without blanks, so that the lines of a picture are reproduced exactly.
        "decoder": { "type": "Fuse" },
        "model": {
            "type": "WordLevel",
            "vocab": numbered,
            "unk_token": UNKNOWN,
        },
    })
}

/// Returns the tokenizer, ready for use.
///
/// # Errors
/// The error of the tokenizer's library for [`json()`].
pub fn tokenizer() -> tokenizers::Result<Tokenizer> {
    Tokenizer::from_bytes(json().to_string())
}
