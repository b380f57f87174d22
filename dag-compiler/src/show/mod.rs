//! Plans and traces in forms for people and tools. This module only presents; it makes no decisions.
//!
//! - `describe`: text, with the planned time line in characters.
//! - `dot`, `mermaid`: the graph of tasks and reads, for other tools to draw.
//! - `svg`: the planned time line as a picture. `measured`: a trace as a picture. Both draw on a `canvas`.
//! - `html`: one interactive page that works offline, with the plan and the trace below it.
//! - `json`: the plan as data, written and read.
//! - `timeline`: a trace for Perfetto. `handover` finds the arrows of `timeline` and `measured`.
//! - `view`: the data for `svg`, `measured` and `html`.

pub(crate) mod inspect;

mod canvas;

mod describe;

mod dot;

mod handover;

mod html;

mod json;

mod measured;

mod mermaid;

mod svg;

mod timeline;

mod view;

pub use json::BadPlan;
