//! A Llama-architecture decoder as actors: pipeline and tensor parallel, on candle.

pub mod step;

pub mod alphabet;
pub mod train;
