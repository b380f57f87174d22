//! The lengths and the number of names.

use super::NameRefusal;

/// The length of the longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The length of the longest name of a type, in bytes.
pub const TYPE_BYTES_MAX: usize = 4096;

/// The number of names that a head has at a time.
pub const NAMES_MAX: usize = 100_000;

/// Whether an object of this type can have this name.
///
/// # Errors
/// [`NameRefusal::Empty`], [`NameRefusal::TooLong`].
pub fn check_name(name: &str, type_name: &str) -> Result<(), NameRefusal> {
    if name.is_empty() {
        return Err(NameRefusal::Empty);
    }
    let lengths = [(name.len(), NAME_BYTES_MAX), (type_name.len(), TYPE_BYTES_MAX)];
    match lengths.into_iter().find(|(bytes, limit)| bytes > limit) {
        Some((bytes, limit)) => Err(NameRefusal::TooLong { bytes, limit }),
        None => Ok(()),
    }
}
