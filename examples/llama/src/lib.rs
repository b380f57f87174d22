//! A Llama-architecture decoder as actors: pipeline and tensor parallel, on candle.

pub mod step;
