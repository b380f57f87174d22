//! The modules that the examples share.
//!
//! - [`data`]: the handwritten digits that come with the repository.
//! - [`weights`]: the file of a model's weights, and the errors of one that does not fit.
//! - [`model`]: the perceptron that recognises digits.
//! - [`random`]: seeded numbers for training.
//! - [`arguments`] and [`tally`]: the command line and the summary of the digits example.

pub mod data;
pub mod weights;

pub mod model;
pub mod random;

pub mod arguments;
pub mod tally;
