//! Text of other programs, for a terminal or an error.

/// The characters of a text that an error quotes.
const EXCERPT_CHARACTERS: usize = 200;

/// The text with its control characters written out: `\u{1b}` for an escape. So no text moves a cursor, hides a line or
/// ends it. Tabs stay.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() && character != '\t' {
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    shown
}

/// The beginning of a text, printable, for an error that quotes it.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARACTERS) {
        Some((end, _)) => printable(text.get(..end).unwrap_or(text)) + "…",
        None => printable(text),
    }
}
