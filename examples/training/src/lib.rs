//! The modules of the programs that train the digits' model with candle.
//!
//! - [`one_thread`]: keeps candle from competing with the lanes.
//! - [`perceptron`]: the layers of the model in candle, and the model that they make.
//! - [`trainer`]: gradients by layer, for the rank of a data-parallel run.

pub mod one_thread;
pub mod perceptron;
pub mod trainer;
