//! Text in heads.
//!
//! Packed bytes may lie in memory that another process can write meanwhile. Numbers are read once, and text is copied before
//! it is checked, so what was checked is what a value gets. Bytes by name are a copy already.

use super::error::SerdeError;
use super::read::{Result, ValueReader};

impl<'de, const NAMED: bool> ValueReader<'de, NAMED> {
    /// Reads text by name, in place.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'de str> {
        std::str::from_utf8(self.lengthy()?).map_err(|_| not_text())
    }

    /// Reads packed text: copies it, and checks the copy.
    #[inline]
    pub(super) fn copied_text(&mut self) -> Result<String> {
        String::from_utf8(self.lengthy()?.to_vec()).map_err(|_| not_text())
    }

    /// Reads a packed letter, as `copied_text` does.
    pub(super) fn copied_letter(&mut self) -> Result<char> {
        let (found, mut copy) = (self.lengthy()?, [0; 4]);
        let none = || SerdeError::said("it holds a letter that is none");
        let copy = copy.get_mut(..found.len()).ok_or_else(none)?;
        copy.copy_from_slice(found);
        let mut letters = std::str::from_utf8(copy).map_err(|_| not_text())?.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(none()),
        }
    }
}

#[cold]
fn not_text() -> SerdeError {
    SerdeError::said("it holds text that is not UTF-8")
}
