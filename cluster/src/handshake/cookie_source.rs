//! The ways by which a process gets the cookie. None of them is its command line, which other users can read.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::cookie::Cookie;
use super::cookie_text::CookieText;
use crate::platform::file_access::{self, FileRefusal};

/// The place from which a process takes the cookie of its cluster (JNET-16).
///
/// ```
/// use selvedge_cluster::handshake::CookieSource;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let line = format!("{}\n", "0f".repeat(32));
/// let cookie = CookieSource::Stdin.read(&mut line.as_bytes())?; // `&mut std::io::stdin()` in a worker
/// assert_eq!(format!("{cookie:?}"), "Cookie(..)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CookieSource {
    /// A cookie that the program has.
    Given(Cookie),
    /// An environment variable, [`CookieSource::VARIABLE`] by convention. Processes that this one starts inherit it
    /// unless they are started without it.
    Variable(String),
    /// A file that only its owner may read, with the cookie in its first line.
    File(PathBuf),
    /// The first line of the standard input.
    Stdin,
}

/// The reason that there is no cookie. No text shows any of its bytes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CookieError {
    /// The variable is not set.
    #[error(
        "the environment has no variable `{variable}`: set it to the cookie, or give the cookie by file or stdin"
    )]
    Unset {
        /// The name of the variable.
        variable: String,
    },
    /// The text is no cookie.
    #[error(
        "{place} is no cookie: a cookie has 64 hexadecimal digits, as `openssl rand -hex 32` prints them"
    )]
    Malformed {
        /// The place of the text.
        place: String,
    },
    /// The input cannot be read.
    #[error("{place} cannot be read: {error}")]
    Unreadable {
        /// The place of the text.
        place: String,
        /// The reason.
        error: io::Error,
    },
    /// The path leads to something else than a file.
    #[error("`{}` is no file: write the cookie to a file that only you may read", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Users other than its owner have rights to the file.
    #[error("`{0}` has the permissions {mode:o}, so others may know the cookie: `chmod 600 {0}`, and make a new one", .path.display())]
    Exposed {
        /// The path.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// The standard input ended before a line.
    #[error(
        "the standard input ended before the cookie: whoever starts this process writes the cookie to it, in a line"
    )]
    Ended,
}

impl CookieSource {
    /// The environment variable that holds the cookie by convention.
    pub const VARIABLE: &str = "SELVEDGE_COOKIE";

    /// Takes the cookie. `stdin` is read by [`CookieSource::Stdin`] alone: up to the end of its first line, and no byte
    /// more if it has no buffer of its own. The read ends when the other end of the input is closed; a process that must
    /// not wait for that ends itself at a time of its own.
    ///
    /// # Errors
    /// Any [`CookieError`].
    pub fn read(&self, stdin: &mut dyn Read) -> Result<Cookie, CookieError> {
        match self {
            CookieSource::Given(cookie) => Ok(cookie.clone()),
            CookieSource::Variable(name) => {
                let value = env::var_os(name).ok_or_else(|| CookieError::Unset {
                    variable: name.clone(),
                })?;
                let text = CookieText::of(value.into_encoded_bytes());
                parse(&text, format!("the value of `{name}`"))
            }
            CookieSource::File(path) => Self::open(path).map(|(cookie, _)| cookie),
            CookieSource::Stdin => {
                let place = "the first line of the standard input".to_owned();
                let text = first_line(stdin, &place)?;
                match text.as_ref() {
                    [] => Err(CookieError::Ended),
                    _ => parse(&text, place),
                }
            }
        }
    }

    /// Takes the cookie from the first line of a file that only its owner may read. Returns the file behind that line.
    ///
    /// # Errors
    /// Any [`CookieError`].
    pub fn open(path: &Path) -> Result<(Cookie, File), CookieError> {
        let place = format!("`{}`", path.display());
        let mut file = file_access::open_private(path).map_err(|refusal| {
            let path = path.to_owned();
            match refusal {
                FileRefusal::Unreadable(error) => CookieError::Unreadable {
                    place: place.clone(),
                    error,
                },
                FileRefusal::NotAFile => CookieError::NotAFile { path },
                FileRefusal::Exposed(mode) => CookieError::Exposed { path, mode },
            }
        })?;
        let text = first_line(&mut file, &place)?;
        let cookie = parse(&text, format!("the first line of {place}"))?;
        Ok((cookie, file))
    }

    /// Makes a new file that only its owner may read, with these bytes: a cookie in its first line, and what belongs to it.
    ///
    /// # Errors
    /// There is a file of this name, or the system does not write it.
    pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
        file_access::create_private(path)?.write_all(bytes)
    }
}

/// Reads the first line, byte by byte, so that no other copy of it is made and nothing behind it is taken.
fn first_line(input: &mut dyn Read, place: &str) -> Result<CookieText, CookieError> {
    let (mut text, mut byte) = (CookieText::new(), [0]);
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(text),
            Ok(_) => {
                let [read] = byte;
                let has_room = text.push(read);
                if !has_room {
                    let place = place.to_owned();
                    return Err(CookieError::Malformed { place });
                }
                if read == b'\n' {
                    return Ok(text);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let place = place.to_owned();
                return Err(CookieError::Unreadable { place, error });
            }
        }
    }
}

fn parse(text: &CookieText, place: String) -> Result<Cookie, CookieError> {
    let text = std::str::from_utf8(text.as_ref()).ok();
    text.and_then(Cookie::parse)
        .ok_or(CookieError::Malformed { place })
}

#[cfg(test)]
mod tests;
