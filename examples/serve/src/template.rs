//! The conversion of messages to a prompt.

use std::str::FromStr;

use selvedge_examples::data::{PIXELS, SIDE};
use selvedge_llama::alphabet;

use crate::chat::Message;
use crate::error::Error;

const PARAM: &str = "messages";
const WORDS: [&str; 10] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];

/// A way to convert messages to a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// For the model that comes with the repository: the user's last message asks for a drawing of a digit, or holds an
    /// image to be read.
    #[default]
    Digits,
    /// The texts of all messages, one per line: for models that only continue text.
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
    /// Returns the prompt.
    ///
    /// # Errors
    /// [`Error::Field`] if the messages ask for something that the model was not made for.
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
    if let Some(image) = image(text) {
        return Ok(alphabet::read(&image));
    }
    if let Some(digit) = digit(text) {
        return Ok(alphabet::draw(digit));
    }
    let help = "asks for nothing that this model does: write `Draw a 3.`, or `Read this:` and eight lines of eight shades";
    Err(Error::field(PARAM, help))
}

/// Returns the first image in a text: consecutive lines that contain only pixels.
fn image(text: &str) -> Option<[u8; PIXELS]> {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .windows(SIDE)
        .find_map(|lines| alphabet::pixels(&lines.join("\n")))
}

/// Returns the only digit that a text names, as a figure or as a word.
fn digit(text: &str) -> Option<u8> {
    let words = text
        .split(|it: char| !it.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let named = words.filter_map(|word| match word.parse::<usize>() {
        Ok(number) => Some(number),
        Err(_) => WORDS.iter().position(|it| it.eq_ignore_ascii_case(word)),
    });
    // `one` may be an article: `Draw one 3.`
    let figures: Vec<usize> = named.collect();
    match figures.as_slice() {
        [digit] | [1, digit] if *digit < WORDS.len() => u8::try_from(*digit).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Result<String, Error> {
        let message = |role: &str, text: &str| Message {
            role: role.into(),
            text: text.into(),
        };
        Template::Digits.prompt(&[message("system", "Draw 9."), message("user", text)])
    }

    #[test]
    fn a_drawing_is_asked_for_in_words() {
        for text in [
            "Draw a 3.",
            "draw 3",
            "Three, please!",
            "Can you draw one 3?",
            "3",
        ] {
            assert_eq!(prompt(text), Ok("draw 3".into()), "{text}");
        }
        assert_eq!(prompt("Draw a one."), Ok("draw 1".into()));
    }

    #[test]
    fn an_image_is_read_wherever_it_stands() {
        let image: Vec<u8> = (0..64).map(|pixel| pixel / 4).collect();
        let picture = alphabet::picture(&image);
        for text in [picture.clone(), format!("What is this?\n\n{picture}\nThanks.")] {
            assert_eq!(prompt(&text), Ok(format!("read\n{picture}")), "{text}");
        }
    }

    #[test]
    fn what_the_model_was_not_made_for_is_refused() {
        for text in [
            "",
            "Write a poem.",
            "Draw 12.",
            "Draw a 3 and a 4.",
            "........\n........",
        ] {
            assert!(
                matches!(
                    prompt(text),
                    Err(Error::Field {
                        param: "messages",
                        ..
                    })
                ),
                "{text}"
            );
        }
    }
}
