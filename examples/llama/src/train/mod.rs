//! How the shipped model comes to be: from the handwritten digits to a folder that any program for Llama models loads.
//!
//! - [`hand`]: what another hand might have written.
//! - [`prompts`]: the ways to ask.
//! - [`lesson`]: a prompt and its answer, and a batch of them as tokens.
//! - [`tokenizer`]: which piece of text is which token.
//! - [`shape`]: how many layers, heads and numbers the model has.
//! - [`parameters`]: the numbers that are learnt.
//! - [`decoder`]: the layers, differentiable; [`fused`] has their pieces that candle has not.
//! - [`schedule`]: how far a step goes.
//! - [`course`]: the steps, from random numbers to a model.
//! - [`memory`]: what is freed is kept for the next step.
//! - [`exam`]: what the model can do.
//! - [`curve`]: the losses as a picture.
//! - [`folder`]: the files.

pub mod hand;
pub mod lesson;
pub mod prompts;
pub mod tokenizer;

pub mod decoder;
pub mod fused;
pub mod parameters;
pub mod shape;

pub mod course;
pub mod memory;
pub mod schedule;

pub mod curve;
pub mod exam;
pub mod folder;
