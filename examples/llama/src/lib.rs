//! A Llama-architecture decoder as actors: pipeline and tensor parallel, on candle.
//!
//! A Hugging Face folder becomes a [`Deployment`](deployment::Deployment), which takes steps: every step is a
//! [`Batch`](step::Batch) of parts of several sequences and returns a token for each part that asks for one.
//!
//! | module | content |
//! |---|---|
//! | [`config`], [`weights`], [`folder`] | the files, checked before any weights are loaded |
//! | [`share`], [`tensors`] | an actor's part of the model, and the slices that it reads |
//! | [`decoder`], [`layer`] | the arithmetic and the caches, without actors |
//! | [`step`], [`watch`] | the input and output of a step, and the checks of the input |
//! | [`stage`], [`deployment`] | the actor, and all actors as a graph |
//! | [`text`], [`pieces`] | text to tokens, and tokens to text one by one |
//! | [`report`] | the time that a run has spent on each part |
//! | [`error`] | the errors of loading a folder |

pub mod config;
pub mod error;
mod shard;
pub mod weights;

pub mod folder;
pub mod share;
pub mod tensors;

mod cache;
pub mod decoder;
mod frame;
pub mod layer;
mod rope;
mod sampling;

pub mod step;
pub mod watch;

pub mod pieces;
pub mod text;

pub mod deployment;
mod graph;
pub mod report;
pub mod stage;

pub mod alphabet;
pub mod train;
