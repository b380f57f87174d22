//! Tests of managers, by theme.

mod commands;
mod life;
mod machines;
mod output;
