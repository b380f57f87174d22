//! Names of users.

use std::fmt;
use std::str::FromStr;

use super::part_error::PartError;
use super::printable::excerpt;

/// The bytes that a name may have.
const BYTES_MAX: usize = 255;

/// The name under which `ssh` logs in, checked as a [`HostName`](super::HostName) is. A name with other characters can
/// stand in the configuration of `ssh`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

impl UserName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserName {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
        let is_length = (1..=BYTES_MAX).contains(&text.len());
        match is_length && !text.starts_with('-') && text.bytes().all(is_allowed) {
            true => Ok(UserName(text.to_owned())),
            false => Err(PartError::User(excerpt(text))),
        }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
