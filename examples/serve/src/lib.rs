//! A language model over HTTP, in the shape of OpenAI's interface, on a compiled graph.
//!
//! A request's way: a connection ([`listen`], [`stall`]) brings a body ([`body`]), whose [`fields`] become a [`generation`]; it
//! waits in the queue of a batcher, takes part in the model's steps as a [`sequence`], and its text comes back through a
//! [`mailbox`] as an [`answer`].
//!
//! | module | what it is |
//! |---|---|
//! | [`listen`], [`stall`] | connections with deadlines, drained in the end |
//! | [`body`], [`fields`], [`error`] | what is read of a request, and what a client is told |
//! | [`completion`], [`chat`], [`template`], [`generation`] | the language model's interfaces, checked |
//! | [`classify`] | the classifier's |
//! | [`vocabulary`], [`stops`] | tokens to text as they come, and where it ends |
//! | [`sequence`], [`mailbox`], [`shape`], [`answer`] | a text under way, and how it is sent |
//! | [`failure`], [`supervise`] | what a broken graph means, and who builds the next |
//! | [`folder`], [`arguments`] | a model's files, and the command line |
//! | [`metrics`], [`figures`], [`process`] | what is counted |
//! | [`service`] | all of it behind its addresses |
//! | [`load`] | clients that measure it |

pub mod listen;
pub mod stall;

pub mod body;
pub mod error;
pub mod fields;

pub mod chat;
pub mod classify;
pub mod completion;
pub mod generation;
pub mod template;

pub mod stops;
pub mod vocabulary;

pub mod answer;
pub mod mailbox;
pub mod sequence;
pub mod shape;

pub mod failure;
pub mod supervise;

pub mod figures;
pub mod metrics;
pub mod process;

pub mod arguments;
pub mod folder;

pub mod service;

pub mod load;
