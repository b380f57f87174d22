//! Words of a shell.

use super::command_error::CommandError;
use super::printable::excerpt;

/// The word, quoted so that a shell reads it as this one word, whatever it contains.
///
/// The quotes are those of POSIX; bash, zsh and ksh have the same. A word of harmless characters stays as it is, so
/// such a command can be read, and other shells read it too.
pub(super) fn quoted(word: &str) -> Result<String, CommandError> {
    if word.contains('\0') {
        let word = excerpt(word);
        return Err(CommandError::Nul { word });
    }
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,+@".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_harmless) {
        true => Ok(word.to_owned()),
        false => Ok(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// The words, quoted, with a space between two.
pub(super) fn sentence(words: &[String]) -> Result<String, CommandError> {
    let words: Result<Vec<_>, _> = words.iter().map(|word| quoted(word)).collect();
    Ok(words?.join(" "))
}
