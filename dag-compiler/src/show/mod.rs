//! Plans and traces as people see them. Nothing here decides anything.
//!
//! - `describe`: words, with the planned time line in characters.
//! - `dot`, `mermaid`: who reads what, for other tools to draw.
//! - `svg`: the planned time line as a picture; `measured`: what a trace has of it. Both draw on a `canvas`.
//! - `html`: one page that works offline, plan and trace one under the other, to be asked by pointer.
//! - `json`: the plan as data, there and back.
//! - `timeline`: a trace for Perfetto. `handover` finds its arrows, and those of `measured`.

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
