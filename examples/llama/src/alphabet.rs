//! Handwritten digits as text: the alphabet of the pictures that the shipped model draws and reads.
//!
//! An image is eight lines of eight characters, one character per pixel, from `.` (paper) to `@` (ink), and each line
//! ends with a newline. The answer to `draw 3` is such an image; the answer to `read` and an image is the digit that
//! the image shows.
//!
//! ```
//! use selvedge_llama::alphabet;
//!
//! let mut pixels = [0; 64];
//! pixels[..8].copy_from_slice(&[0, 1, 2, 4, 8, 12, 15, 16]);
//! let picture = alphabet::picture(&pixels);
//! assert_eq!(picture.lines().next(), Some(".::-+%@@"));
//! assert_eq!(alphabet::pixels(&picture).map(|pixels| pixels[7]), Some(16));
//! assert_eq!(alphabet::digit("3\n"), Some(3));
//! ```

use selvedge_examples::data::{CLASSES, PIXEL_MAX, PIXELS, SIDE};

/// The characters of a pixel, from paper to ink. None is a letter, a digit or a blank, so that a word, a label or a
/// terminal cannot confuse a pixel with something else.
pub const SHADES: [char; 9] = ['.', ':', '-', '=', '+', '*', '%', '#', '@'];

/// The number of pixel levels that share a character; paper has a character of its own.
const LEVELS: u8 = 2;

/// Returns the prompt that asks for a picture.
pub fn draw(digit: u8) -> String {
    format!("draw {digit}")
}

/// Returns the prompt that asks which digit an image shows.
pub fn read(image: &[u8]) -> String {
    format!("read\n{}", picture(image))
}

/// Returns an image of 64 pixels from 0 to 16 as text; pixels beyond 16 count as 16.
pub fn picture(image: &[u8]) -> String {
    let mut text = String::new();
    for line in image.chunks(SIDE) {
        text.extend(line.iter().map(|pixel| shade(*pixel)));
        text.push('\n');
    }
    text
}

/// Returns the pixels of a picture, each with the darkest level of its shade. Blank space around the picture and at the
/// ends of its lines is ignored. `None` for a text that is not eight lines of eight shades.
pub fn pixels(text: &str) -> Option<[u8; PIXELS]> {
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    if lines.len() != SIDE || lines.iter().any(|line| line.chars().count() != SIDE) {
        return None;
    }
    let levels: Option<Vec<u8>> = lines.iter().flat_map(|line| line.chars()).map(level).collect();
    levels?.try_into().ok()
}

/// Returns the digit in an answer to [`read`], if the answer is a digit.
pub fn digit(answer: &str) -> Option<u8> {
    let digit = answer.trim().parse().ok()?;
    (usize::from(digit) < CLASSES).then_some(digit)
}

fn shade(pixel: u8) -> char {
    let index = pixel.min(PIXEL_MAX).div_ceil(LEVELS);
    SHADES.get(usize::from(index)).copied().unwrap_or_default()
}

fn level(shade: char) -> Option<u8> {
    let index = SHADES.iter().position(|it| *it == shade)?;
    u8::try_from(index).ok().map(|index| index * LEVELS)
}
