//! A Llama-architecture decoder as actors: pipeline and tensor parallel, on candle.
//!
//! A folder as Hugging Face lays it out becomes a [`Deployment`](deployment::Deployment), which takes steps: every step is a
//! [`Batch`](step::Batch) of parts of several sequences and gives a token for each part that asks for one.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`], [`weights`], [`folder`] | the files, checked before anything is loaded |
//! | [`share`], [`tensors`] | which part of the model an actor holds, and which slices it reads |
//! | [`decoder`], [`layer`] | the arithmetic and the caches, with no actors |
//! | [`step`], [`watch`] | what goes in and comes out, and what is refused |
//! | [`stage`], [`deployment`] | the actor, and all of them as a graph |
//! | [`text`] | text to tokens, and back as they come |
//! | [`report`] | where the time went |
//! | [`error`] | why a folder cannot be loaded |

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

pub mod text;

pub mod deployment;
mod graph;
pub mod report;
pub mod stage;

pub mod alphabet;
pub mod train;
