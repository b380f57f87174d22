//! The wordings of requests: users do not keep to one wording, and the model should not depend on it.

use selvedge_examples::random::Random;

use super::tokenizer::NUMBERS;
use crate::alphabet;

/// Requests for a picture; `{}` is the digit. Some words are not in the model's vocabulary: it learns to ignore them.
const DRAW: [&str; 8] = [
    "Draw {}",
    "Draw a {}.",
    "Draw the digit {}.",
    "Draw the number {}.",
    "Please draw a {}.",
    "Could you draw me a {}?",
    "Draw a {} for me, please.",
    "{}",
];
/// Requests to read the image that follows.
const READ: [&str; 7] = [
    "Read this:",
    "Read this digit:",
    "Read the number:",
    "What is this?",
    "Which digit is this?",
    "What number is this?",
    "Can you tell me what this is?",
];

/// Returns a request for a picture of `digit`: half of the requests are plain, a few have the digit spelt out.
pub fn draw(digit: u8, random: &mut Random) -> String {
    let plain = random.below(2) == 0;
    let spelt = random.below(4) == 0;
    let wording = DRAW.get(random.below(DRAW.len())).copied().unwrap_or_default();
    let number = match NUMBERS.get(usize::from(digit)) {
        Some(word) if spelt => (*word).to_string(),
        _ => digit.to_string(),
    };
    let mut prompt = if plain {
        alphabet::draw(digit)
    } else {
        wording.replace("{}", &number)
    };
    if random.below(2) == 0 {
        prompt.push('\n');
    }
    prompt
}

/// Returns a request to read an image: half of the requests are plain, some lack the newline at the end, which shells
/// strip.
pub fn read(image: &[u8], random: &mut Random) -> String {
    let plain = random.below(2) == 0;
    let wording = READ.get(random.below(READ.len())).copied().unwrap_or_default();
    let mut prompt = match plain {
        true => alphabet::read(image),
        false => format!("{wording}\n{}", alphabet::picture(image)),
    };
    if random.below(3) == 0 {
        prompt.pop();
    }
    prompt
}
