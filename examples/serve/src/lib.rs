//! A language model over HTTP, in the shape of OpenAI's interface, on a compiled graph.
//!
//! The path of a request: a connection ([`listen`], [`stall`]) brings a body ([`body`]), whose [`fields`] become a
//! [`generation`]; it waits in the queue of a batcher, takes part in the model's steps as a [`sequence`], and its text
//! comes back through a [`mailbox`] as an [`answer`].
//!
//! | module | content |
//! |---|---|
//! | [`listen`], [`stall`] | connections with deadlines, drained at the end |
//! | [`body`], [`fields`], [`error`] | the reading of requests, and the errors of clients |
//! | [`completion`], [`chat`], [`template`], [`generation`] | the language model's interfaces, checked |
//! | [`prompts`] | prompts to tokens, away from the threads that serve connections |
//! | [`classify`] | the interface of the classifier |
//! | [`vocabulary`], [`stops`] | tokens to text one by one, and stop texts |
//! | [`sequence`], [`mailbox`], [`shape`], [`answer`] | a text in flight, and its delivery |
//! | [`failure`], [`supervise`] | the errors of a broken graph, and the building of the next |
//! | [`folder`], [`arguments`] | a model's files, and the command line |
//! | [`metrics`], [`figures`], [`process`] | counters and figures |
//! | [`service`] | the service with its addresses |
//! | [`load`] | clients that measure the service |

pub mod listen;
pub mod stall;

pub mod body;
pub mod error;
pub mod fields;

pub mod chat;
pub mod classify;
pub mod completion;
pub mod generation;
pub mod prompts;
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
