//! Doc comments that begin with a pronoun: a sentence begins with the noun it is about.

use crate::Measure;
use crate::source::Package;

/// First words that stand for a noun that is not there.
const PRONOUNS: [&str; 29] = [
    "What",
    "Whatever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Which",
    "Where",
    "Wherever",
    "It",
    "Its",
    "They",
    "Their",
    "This",
    "That",
    "These",
    "Those",
    "There",
    "Then",
    "Here",
    "As",
    "Same",
    "Such",
    "So",
    "And",
    "But",
    "Also",
    "Otherwise",
    "Somebody",
];

/// Phrases that begin with a noun and say no more.
const PHRASES: [&str; 5] = ["The same", "Whether it", "Whether they", "One that", "Nobody"];

/// The doc comments that begin so.
pub(crate) fn beginnings(packages: &[Package]) -> Measure {
    let mut places = Vec::new();
    for module in packages.iter().flat_map(|package| &package.modules) {
        let mut inside = false;
        for (number, line) in module.lines() {
            let line = line.trim_start();
            let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(text) = text.filter(|_| !inside)
                && begins_badly(text.trim_start())
            {
                places.push(module.place(number, text.trim_start()));
            }
            inside = text.is_some();
        }
    }
    Measure::count("docs that begin with a pronoun", places)
}

fn begins_badly(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphabetic()).next();
    PRONOUNS.iter().any(|word| first == Some(word)) || PHRASES.iter().any(|phrase| text.starts_with(phrase))
}
