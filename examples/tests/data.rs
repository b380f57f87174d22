//! Tests of the digits that come with the repository, and of malformed files.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use selvedge_examples::data::{CLASSES, DataError, Digits, TRAINING_ROWS, scaled};

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn line(pixel: &str, pixels: usize, label: &str) -> String {
    format!("{}{label}\n", format!("{pixel},").repeat(pixels))
}

#[test]
fn the_last_359_rows_are_held_out_and_show_every_digit() {
    let digits = Digits::load().unwrap();
    assert_eq!(digits.rows(), 1797);
    assert_eq!(digits.held_out(), TRAINING_ROWS..1797);
    assert_eq!(digits.held_out().len(), 359);
    for class in 0..CLASSES as u8 {
        let seen = digits
            .labels(digits.held_out())
            .iter()
            .filter(|label| **label == class);
        assert!(seen.count() >= 30, "digit {class}");
    }
    assert_eq!((digits.label(0), digits.label(1797)), (Some(0), None));
    assert_eq!(digits.image(0).unwrap()[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
    assert_eq!(digits.image(1797), None);
    assert_eq!((scaled(0), scaled(16)), (0.0, 1.0));
}

#[test]
fn a_line_that_is_no_image_and_label_is_named() {
    let good = line("16", 64, "9");
    for bad in [
        line("17", 64, "9"),
        line("0", 63, "9"),
        line("0", 64, "10"),
        line("x", 64, "1"),
        "\n".into(),
    ] {
        let error = Digits::parse(&gzipped(&format!("{good}{bad}"))).unwrap_err();
        assert!(matches!(error, DataError::Line { line: 2 }), "{error}");
    }
    assert_eq!(Digits::parse(&gzipped(&good)).unwrap().rows(), 1);
}

#[test]
fn a_file_that_is_not_gzip_or_cut_off_is_refused() {
    let whole = gzipped(&line("1", 64, "1"));
    for bytes in [b"plain".as_slice(), &whole[..whole.len() / 2], &[]] {
        assert!(matches!(Digits::parse(bytes), Err(DataError::Unpack(_))));
    }
}
