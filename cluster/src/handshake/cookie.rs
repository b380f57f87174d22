//! The secret of a cluster.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

use super::cookie_text::{CookieText, wipe};

/// The secret that all processes of a cluster share: 256 random bits. A cookie cannot be printed or compared, and its
/// memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct Cookie([u8; 32]);

/// The side of a handshake. Each proves itself with a name of its own, so no proof can be sent back to its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dialer,
    Listener,
}

impl Cookie {
    /// The cookie of these bytes, which have to be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Cookie(bytes)
    }

    /// A cookie that nobody knows, from the random numbers of the system. Its text is for the other processes of the
    /// cluster.
    ///
    /// # Errors
    /// [`NoRandomness`]: the system gives no random numbers.
    pub fn random() -> Result<Self, NoRandomness> {
        let mut cookie = Cookie([0; 32]);
        getrandom::fill(&mut cookie.0).map_err(NoRandomness)?;
        Ok(cookie)
    }

    /// The cookie as a line of 64 hexadecimal digits, for the standard input of a worker or a file.
    ///
    /// ```
    /// use selvedge_cluster::handshake::Cookie;
    /// let line = Cookie::new([0xab; 32]).text();
    /// assert_eq!(line.as_ref(), format!("{}\n", "ab".repeat(32)).as_bytes());
    /// ```
    pub fn text(&self) -> CookieText {
        let mut text = CookieText::new();
        for byte in &self.0 {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).map_or(b'0', |digit| digit as u8));
            }
        }
        text.push(b'\n');
        text
    }

    /// The cookie of 64 hexadecimal digits, with white space around them; `None` for any other text.
    ///
    /// ```
    /// use selvedge_cluster::handshake::Cookie;
    /// assert!(Cookie::parse(&"0f".repeat(32)).is_some());
    /// assert!(Cookie::parse("0f").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                let digit = char::from(*digit).to_digit(16)?;
                *byte = *byte << 4 | u8::try_from(digit).ok()?;
            }
        }
        Some(Cookie(bytes))
    }

    /// The proof that `side` knows the cookie and has seen these fields: their HMAC-SHA256.
    pub(super) fn prove(&self, side: Side, fields: [&[u8]; 4]) -> [u8; 32] {
        self.code(side, fields).finalize().into_bytes().into()
    }

    /// Checks the proof of a side, in constant time.
    pub(super) fn verify(&self, side: Side, fields: [&[u8]; 4], proof: &[u8; 32]) -> bool {
        self.code(side, fields).verify_slice(proof).is_ok()
    }

    fn code(&self, side: Side, fields: [&[u8]; 4]) -> Hmac<Sha256> {
        // HMAC fills a short key with zeros up to the block of the hash.
        let mut key = [0; 64];
        key.iter_mut()
            .zip(&self.0)
            .for_each(|(place, byte)| *place = *byte);
        // By reference, so that there is no other copy to overwrite.
        let mut code = Hmac::<Sha256>::new((&key).into());
        wipe(&mut key);
        code.update(match side {
            Side::Dialer => b"selvedge handshake 1: dialer",
            Side::Listener => b"selvedge handshake 1: listener",
        });
        for field in fields {
            code.update(&(field.len() as u64).to_le_bytes());
            code.update(field);
        }
        code
    }
}

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the system gives no random numbers, so there is no cookie: {0}; give one by file, environment or stdin"
)]
pub struct NoRandomness(getrandom::Error);

impl Drop for Cookie {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}
