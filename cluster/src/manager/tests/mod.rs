//! Tests of managers, by theme.

mod commands;
mod machines;
mod output;
