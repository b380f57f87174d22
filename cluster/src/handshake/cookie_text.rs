//! The text of a cookie, in memory that is overwritten after use.

use std::fmt;
use std::hint::black_box;

/// The bytes of a text that may be a cookie: 64 digits, and white space around them.
const BYTES_MAX: usize = 256;

/// The text of a cookie. The text cannot be printed, and its memory is overwritten when it is dropped.
pub struct CookieText(Vec<u8>);

impl CookieText {
    pub(super) fn new() -> Self {
        // The text never grows into other memory, which would leave a copy behind.
        CookieText(Vec::with_capacity(BYTES_MAX))
    }

    /// The text in this memory.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        CookieText(bytes)
    }

    /// Adds a byte; says whether there was room.
    pub(super) fn push(&mut self, byte: u8) -> bool {
        let has_room = self.0.len() < BYTES_MAX;
        if has_room {
            self.0.push(byte);
        }
        has_room
    }
}

impl AsRef<[u8]> for CookieText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CookieText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieText(..)")
    }
}

impl Drop for CookieText {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites a secret. Copies that the compiler has made of it, for example when it was moved, are not found.
pub(crate) fn wipe(secret: &mut [u8]) {
    secret.fill(0);
    // The zeros count as read, so the compiler writes them.
    black_box(secret);
}
