//! The training of the shipped model: from the handwritten digits to a folder that any program for Llama models loads.
//!
//! - [`hand`]: variations of handwriting.
//! - [`prompts`]: the wordings of requests.
//! - [`lesson`]: a prompt and its answer, and a batch of them as tokens.
//! - [`tokenizer`]: the token of each piece of text.
//! - [`shape`]: the numbers of layers, heads and elements of the model.
//! - [`parameters`]: the numbers that are learnt.
//! - [`decoder`]: the layers, differentiable; [`fused`] has the operations that candle lacks.
//! - [`schedule`]: the learning rate of each step.
//! - [`course`]: the steps, from random numbers to a model.
//! - [`memory`]: freed memory is kept for the next step.
//! - [`exam`]: the exam of the model.
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
