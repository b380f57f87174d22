//! How messages become a prompt.

use std::str::FromStr;

use crate::chat::Message;
use crate::error::Error;

const PARAM: &str = "messages";
const WORDS: [&str; 10] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];

/// How messages become a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// For the model that comes with the repository: the last message of the user asks for a drawing of a digit, or holds an
    /// image to be read.
    #[default]
    Digits,
    /// The texts of all messages, one a line: for models that only continue text.
    Plain,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "digits" => Ok(Template::Digits),
            "plain" => Ok(Template::Plain),
            _ => Err(format!("unknown template `{name}`: use digits or plain")),
        }
    }
}

impl Template {
    /// The prompt.
    ///
    /// # Errors
    /// [`Error::Field`] where the messages ask for what the model was not made for.
    pub fn prompt(self, messages: &[Message]) -> Result<String, Error> {
        match self {
            Template::Plain => {
                let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
                Ok(texts.join("\n"))
            }
            Template::Digits => {
                let asked = messages.iter().rev().find(|message| message.role == "user");
                let asked = asked.ok_or_else(|| Error::field(PARAM, "has no message of the user"))?;
                digits(&asked.text)
            }
        }
    }
}

fn digits(text: &str) -> Result<String, Error> {
    if let Some(digit) = digit(text) {
        return Ok(format!("draw {digit}"));
    }
    let help = "asks for neither of what this model does: write `Draw a 3.`, or `Read this:` and an image of eight lines";
    Err(Error::field(PARAM, help))
}

/// The only digit that a text names, as a figure or as a word.
fn digit(text: &str) -> Option<usize> {
    let words = text
        .split(|it: char| !it.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let named = words.filter_map(|word| match word.parse::<usize>() {
        Ok(number) => Some(number),
        Err(_) => WORDS.iter().position(|it| it.eq_ignore_ascii_case(word)),
    });
    // `one` may stand for a thing: `Draw one 3.`
    let figures: Vec<usize> = named.collect();
    match figures.as_slice() {
        [digit] | [1, digit] if *digit < WORDS.len() => Some(*digit),
        _ => None,
    }
}
