//! Tests of managers, by theme.

mod machines;
mod output;
