//! Plans and traces in forms for people and tools. This module only presents; it makes no decisions.
//!
//! - `describe`: text, with the planned time line in characters.
//! - `dot`: the graph of tasks and reads, in DOT and Mermaid, for other tools to draw.
//! - `svg`: the planned time line as a picture, and a trace as a picture, both on a `canvas`.
//! - `view`: the data for pictures, and one interactive HTML page that works offline, with the plan and the trace below it.
//! - `json`: the plan as data, written and read.
//! - `timeline`: a trace for Perfetto.

pub(crate) mod inspect;

mod canvas;
mod describe;
mod dot;
mod json;
mod svg;
mod timeline;
mod view;

pub use json::BadPlan;
