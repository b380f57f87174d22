//! The UCI handwritten digits: 1 797 images of 8 × 8 pixels with values 0 to 16, and their labels.

use std::io::Read;
use std::ops::Range;

/// The pixels in a row, and the rows in an image.
pub const SIDE: usize = 8;
/// The pixels of an image, row by row.
pub const PIXELS: usize = SIDE * SIDE;
/// The darkest value of a pixel.
pub const PIXEL_MAX: u8 = 16;
/// The number of classes, and so of labels: 0 to 9.
pub const CLASSES: usize = 10;
/// The number of rows for training; the other 359 rows are held out. The order is that of the file, not shuffled: the
/// last rows come from other writers than the first.
pub const TRAINING_ROWS: usize = 1438;

/// The data, compiled in so that every process has it.
const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");

/// The reason why the data cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file is not gzip, or not text.
    #[error("the digits cannot be unpacked: {0}")]
    Unpack(std::io::Error),
    /// A line is not an image and its label.
    #[error("line {line} of the digits is not {PIXELS} pixels from 0 to {PIXEL_MAX} and a label from 0 to 9")]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
}

selvedge::debug_is_report!(DataError);

/// Images and labels, by row.
#[derive(Clone, Debug, Default)]
pub struct Digits {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Digits {
    /// Loads the data that comes with the repository.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    pub fn load() -> Result<Digits, DataError> {
        Digits::parse(FILE)
    }

    /// Reads gzipped lines of 64 pixels and a label.
    ///
    /// # Errors
    /// [`DataError::Unpack`] if the file is not gzipped text, [`DataError::Line`] for the first line that does not fit.
    pub fn parse(gzipped: &[u8]) -> Result<Digits, DataError> {
        let mut text = String::new();
        let read = flate2::read::GzDecoder::new(gzipped).read_to_string(&mut text);
        read.map_err(DataError::Unpack)?;
        let mut digits = Digits::default();
        for (index, line) in text.lines().enumerate() {
            let (pixels, label) = row(line).ok_or(DataError::Line { line: index + 1 })?;
            digits.pixels.extend_from_slice(&pixels);
            digits.labels.push(label);
        }
        Ok(digits)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// Returns the rows that no model was trained on.
    pub fn held_out(&self) -> Range<usize> {
        TRAINING_ROWS.min(self.rows())..self.rows()
    }

    /// Returns the pixels of a row.
    pub fn image(&self, row: usize) -> Option<&[u8]> {
        self.pixels.chunks_exact(PIXELS).nth(row)
    }

    /// Returns the digit that a row shows.
    pub fn label(&self, row: usize) -> Option<u8> {
        self.labels.get(row).copied()
    }

    /// Returns the digits that some rows show; none unless all rows exist.
    pub fn labels(&self, rows: Range<usize>) -> &[u8] {
        self.labels.get(rows).unwrap_or_default()
    }
}

/// Returns a pixel scaled to the model's range, from 0 to 1.
pub fn scaled(pixel: u8) -> f32 {
    f32::from(pixel) / f32::from(PIXEL_MAX)
}

/// Returns the pixels and the label of a line.
fn row(line: &str) -> Option<(Vec<u8>, u8)> {
    let numbers: Option<Vec<u8>> = line.split(',').map(|number| number.parse().ok()).collect();
    let mut pixels = numbers?;
    let label = pixels.pop().filter(|label| usize::from(*label) < CLASSES)?;
    let fits = pixels.len() == PIXELS && pixels.iter().all(|pixel| *pixel <= PIXEL_MAX);
    fits.then_some((pixels, label))
}
