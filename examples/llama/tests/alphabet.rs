//! Tests of images as text and of texts as tokens.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

use selvedge_examples::data::{Digits, PIXEL_MAX};
use selvedge_llama::alphabet::{SHADES, digit, draw, picture, pixels, read};
use selvedge_llama::train::tokenizer::{UNKNOWN, tokenizer, vocabulary};

#[test]
fn an_image_comes_back_at_most_a_level_darker() {
    let digits = Digits::load().unwrap();
    for image in (0..digits.rows()).map(|row| digits.image(row).unwrap()) {
        let text = picture(image);
        let again = pixels(&text).unwrap();
        assert!(image.iter().zip(again).all(|(pixel, again)| again - pixel <= 1));
        assert_eq!(picture(&again), text);
    }
}

#[test]
fn every_level_has_a_shade_and_only_paper_is_paper() {
    let shades: Vec<char> = (0..=PIXEL_MAX)
        .map(|pixel| picture(&[pixel]).chars().next().unwrap())
        .collect();
    assert_eq!(
        (shades[0], shades[1], shades[16]),
        (SHADES[0], SHADES[1], SHADES[8])
    );
    assert_eq!(picture(&[255]), "@\n");
}

#[test]
fn what_is_no_picture_is_none() {
    let whole = picture(&[3; 64]);
    assert_eq!(
        pixels(&format!("\n  {}\n\n", whole.replace('\n', "  \r\n  "))),
        Some([4; 64])
    );
    let seven = whole.lines().skip(1).collect::<Vec<_>>().join("\n");
    for text in [
        "",
        "3",
        &seven,
        &format!("{seven}\n---"),
        &format!("{whole}--------"),
        &whole.replacen('-', "0", 1),
    ] {
        assert_eq!(pixels(text), None, "{text}");
    }
}

#[test]
fn an_answer_is_one_digit() {
    assert_eq!((digit("7"), digit(" 0\n")), (Some(7), Some(0)));
    assert!(
        ["", "10", "-1", "seven", "7 7", "300"]
            .into_iter()
            .all(|text| digit(text).is_none())
    );
}

#[test]
fn prompts_are_words_and_pictures_are_characters() {
    let tokenizer = tokenizer().unwrap();
    let tokens = |text: &str| tokenizer.encode(text, true).unwrap().get_tokens().to_vec();
    assert_eq!(tokens(&draw(3)), ["draw", "3"]);
    // Case, blanks and punctuation make no difference: a full stop does not become paper.
    for text in ["Draw a 3.", " draw  a\t3 ?!", "DRAW A 3...", "draw a 3:"] {
        let tokens = tokens(text);
        assert_eq!(tokens[..3], ["draw", "a", "3"], "{text}");
    }
    assert_eq!(tokens("Draw a 3.\n"), ["draw", "a", "3", "\n"]);
    assert_eq!(tokens("Sketch a threefold ü"), [UNKNOWN, "a", UNKNOWN, UNKNOWN]);
    let image = read(&[16; 64]);
    assert_eq!(tokens(&image).len(), 2 + 8 * 9);
    assert_eq!(
        tokens(&image.replace("read\n", "Read this:\n"))[..4],
        ["read", "this", "\n", "@"]
    );
    assert_eq!(tokens("42"), ["4", "2"]);
}

#[test]
fn tokens_of_a_picture_are_its_text() {
    let tokenizer = tokenizer().unwrap();
    let text = picture(&(0..64).map(|at| at % 17).collect::<Vec<u8>>());
    let tokens = tokenizer.encode(text.as_str(), true).unwrap();
    assert_eq!(tokenizer.decode(tokens.get_ids(), true).unwrap(), text);
}

#[test]
fn every_token_has_one_number() {
    let (vocabulary, tokenizer) = (vocabulary(), tokenizer().unwrap());
    assert_eq!(tokenizer.get_vocab_size(true), vocabulary.len());
    for (id, token) in vocabulary.iter().enumerate() {
        assert_eq!(tokenizer.token_to_id(token), Some(id as u32), "{token:?}");
    }
}
