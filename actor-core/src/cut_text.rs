//! Texts of limited length.

/// The beginning of a text that is longer than `most` bytes, with a mark of the cut; `None` for a shorter one. A text that was cut before
/// is not cut again.
pub(crate) fn cut(text: &str, most: usize) -> Option<String> {
    let start = text.get(..text.floor_char_boundary(most))?;
    (start.len() < text.len()).then(|| format!("{start}…"))
}
