//! Which piece of text is which token: a word, a digit, a shade, or the end of a line.
//!
//! There is no token for the beginning, so that a text has the same tokens whether or not a program asks for special
//! ones. Blanks between words are dropped, and so is punctuation behind a word: a full stop would look like paper.

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use crate::alphabet::SHADES;

/// What stands for anything else.
pub const UNKNOWN: &str = "<|unk|>";
/// Ends an answer.
pub const END: &str = "<|end|>";
/// Ends a line of a picture.
pub const NEWLINE: &str = "\n";

const WORDS: [&str; 10] = [
    "draw", "read", "a", "the", "digit", "number", "this", "is", "what", "which",
];
/// Digits spelt out.
pub const NUMBERS: [&str; 10] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];

/// All tokens, in the order of their numbers.
pub fn vocabulary() -> Vec<String> {
    let mut tokens: Vec<String> = [UNKNOWN, END, NEWLINE].map(String::from).into();
    tokens.extend(SHADES.map(String::from));
    tokens.extend((0..10).map(|digit| digit.to_string()));
    tokens.extend(WORDS.map(String::from));
    tokens.extend(NUMBERS.map(String::from));
    tokens
}

/// The number of a token.
pub fn id(token: &str) -> Option<u32> {
    let at = vocabulary().iter().position(|it| it == token)?;
    u32::try_from(at).ok()
}

/// The tokenizer as a `tokenizer.json`.
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
                // Punctuation behind a word, up to the next blank.
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
        // Tokens follow each other without a blank: the lines of a picture come back as they are.
        "decoder": { "type": "Fuse" },
        "model": {
            "type": "WordLevel",
            "vocab": numbered,
            "unk_token": UNKNOWN,
        },
    })
}

/// The tokenizer, ready for use.
///
/// # Errors
/// What the tokenizer's library says of [`json()`].
pub fn tokenizer() -> tokenizers::Result<Tokenizer> {
    Tokenizer::from_bytes(json().to_string())
}
