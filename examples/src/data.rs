//! The UCI handwritten digits: 1 797 images of 8 × 8 pixels with values 0 to 16, and their labels.

use std::io::Read;

/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Rows for training; the rest, 359, is held out. Sequential, not shuffled.
pub const TRAINING_ROWS: usize = 1438;

/// The data, compiled in so that every process has it.
const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");

/// Images and labels, by row.
#[derive(Clone, Debug, Default)]
pub struct Digits {
    /// `PIXELS` values from 0 to 16 per row.
    pub pixels: Vec<u8>,
    /// One label from 0 to 9 per row.
    pub labels: Vec<u8>,
}

impl Digits {
    /// Reads the data.
    ///
    /// # Errors
    /// A text that names the first line that is not 64 pixels and a label.
    pub fn load() -> Result<Digits, String> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(FILE)
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        let mut digits = Digits::default();
        for (index, line) in text.lines().enumerate() {
            let numbers: Vec<u8> = line
                .split(',')
                .filter_map(|number| number.trim().parse::<f32>().ok())
                .map(|number| number as u8)
                .collect();
            let Some((label, pixels)) = numbers.split_last().filter(|(_, pixels)| pixels.len() == PIXELS)
            else {
                return Err(format!(
                    "line {} of the digits is not {PIXELS} pixels and a label",
                    index + 1
                ));
            };
            digits.pixels.extend_from_slice(pixels);
            digits.labels.push(*label);
        }
        Ok(digits)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The pixels of a row.
    pub fn image(&self, row: usize) -> &[u8] {
        self.pixels
            .get(row * PIXELS..(row + 1) * PIXELS)
            .unwrap_or_default()
    }
}
