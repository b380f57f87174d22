//! Tokens become text one by one, and the pieces together are the whole text.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use made::{CONFIG, Made};
use selvedge_llama::text::Text;

/// A tokenizer whose tokens are bytes, in the notation of byte-level BPE; three bytes that form a character stay three
/// tokens.
const BYTES: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
    "added_tokens": [{"id": 7, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "vocab": {"a": 0, "b": 1, "â": 2, "Ĥ": 3, "¬": 4, "Ġ": 5, "ab": 6, "</s>": 7}, "merges": ["a b"]}
}"#;

fn text() -> (Made, Text) {
    let made = Made::bare(&format!("text {:?}", std::thread::current().id()), CONFIG);
    std::fs::write(made.path.join("tokenizer.json"), BYTES).unwrap();
    let text = Text::open(&made.path).unwrap();
    (made, text)
}

#[test]
fn a_character_of_several_tokens_comes_whole() {
    let (_made, text) = text();
    let whole = "ab € a€";
    let tokens = text.encode(whole).unwrap();
    assert_eq!(tokens, [6, 5, 2, 3, 4, 5, 0, 2, 3, 4]);
    let mut stream = text.stream();
    let said: Vec<String> = tokens.iter().map(|token| stream.push(*token).unwrap()).collect();
    assert_eq!(said, ["ab", " ", "", "", "€", " ", "a", "", "", "€"]);
    assert_eq!(stream.finish().unwrap(), "");
}

#[test]
fn what_never_becomes_whole_is_said_at_the_end_and_what_steers_is_not_said() {
    let (_made, text) = text();
    let mut stream = text.stream();
    let said: Vec<String> = [0, 7, 2, 3]
        .iter()
        .map(|token| stream.push(*token).unwrap())
        .collect();
    assert_eq!(said, ["a", "", "", ""]);
    assert_eq!(stream.finish().unwrap(), "\u{fffd}");
}

#[test]
fn a_folder_without_a_tokenizer_says_so() {
    let made = Made::bare("no tokenizer", CONFIG);
    let error = Text::open(&made.path).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
    std::fs::write(made.path.join("tokenizer.json"), "{").unwrap();
    assert!(
        Text::open(&made.path)
            .err()
            .unwrap()
            .to_string()
            .contains("cannot be understood")
    );
}
